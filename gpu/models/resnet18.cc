#include "gpu/graph/builder.h"
#include "gpu/models/models.h"

namespace es::gpu {
namespace {

Conv2dOptions conv(std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return {.out = out,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .init = WeightInit::kFanOutRelu};
}

// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut), the shortcut x or downsample(x). The
// downsample comes after the main path, so that parameters have torchvision's order.
TensorId basic_block(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out,
                     std::int64_t stride, bool downsample) {
  TensorId main = b.conv2d(name + ".conv1", x, conv(out, 3, stride));
  main = b.batch_norm(name + ".bn1", main, {.relu = true});
  main = b.conv2d(name + ".conv2", main, conv(out, 3, 1));
  main = b.batch_norm(name + ".bn2", main);
  TensorId shortcut = x;
  if (downsample) {
    shortcut = b.conv2d(name + ".downsample.0", x, conv(out, 1, stride));
    shortcut = b.batch_norm(name + ".downsample.1", shortcut);
  }
  return b.add(name, main, shortcut, {.relu = true});
}

}  // namespace

Result<Graph> build_resnet18(TensorShape input, std::int64_t width, std::int64_t classes) {
  GraphBuilder b("resnet18", input);
  TensorId x = b.conv2d("conv1", b.input(), conv(width, 3, 1));
  x = b.batch_norm("bn1", x, {.relu = true});
  for (int layer = 1; layer <= 4; ++layer) {
    const std::int64_t out = width << (layer - 1);
    const bool first_changes_shape = layer > 1;
    const std::string name = "layer" + std::to_string(layer);
    x = basic_block(b, name + ".0", x, out, first_changes_shape ? 2 : 1, first_changes_shape);
    x = basic_block(b, name + ".1", x, out, 1, false);
  }
  x = b.global_avg_pool("avgpool", x);
  return b.finish(b.linear("fc", x, {.out = classes}));
}

}  // namespace es::gpu
