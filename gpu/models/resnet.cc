// ResNets (He et al. 2016) as torchvision builds them: the stride of a bottleneck is in its 3x3
// convolution. ResNet18 has the stem for small images (conv1 is 3x3 with stride 1, and there is no
// max pool).
#include <array>
#include <string_view>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

Conv2dOptions conv(std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return {.out = out,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .init = {WeightInit::Kind::kFanOutRelu}};
}

TensorId conv_bn_relu(GraphBuilder& b, const std::string& block, int number, TensorId x,
                      const Conv2dOptions& options) {
  x = b.conv2d(block + "conv" + std::to_string(number), x, options);
  return b.batch_norm(block + "bn" + std::to_string(number), x, {.activation = Activation::kRelu});
}

// Returns relu(main + shortcut). The shortcut is x or downsample(x). The downsample is added after
// the main path, so that the parameters have torchvision's order.
TensorId join(GraphBuilder& b, const std::string& block, TensorId x, TensorId main,
              std::int64_t stride) {
  TensorId shortcut = x;
  const std::int64_t out = b.shape(main).row();
  if (stride != 1 || b.shape(x).row() != out) {
    shortcut = b.conv2d(block + "downsample.0", x, conv(out, 1, stride));
    shortcut = b.batch_norm(block + "downsample.1", shortcut);
  }
  return b.add(block + "add", main, shortcut, {.relu = true});
}

using Block = TensorId (*)(GraphBuilder&, const std::string&, TensorId, std::int64_t, std::int64_t);

TensorId basic_block(GraphBuilder& b, const std::string& block, TensorId x, std::int64_t width,
                     std::int64_t stride) {
  TensorId main = conv_bn_relu(b, block, 1, x, conv(width, 3, stride));
  main = b.conv2d(block + "conv2", main, conv(width, 3, 1));
  return join(b, block, x, b.batch_norm(block + "bn2", main), stride);
}

TensorId bottleneck(GraphBuilder& b, const std::string& block, TensorId x, std::int64_t width,
                    std::int64_t stride) {
  TensorId main = conv_bn_relu(b, block, 1, x, conv(width, 1, 1));
  main = conv_bn_relu(b, block, 2, main, conv(width, 3, stride));
  main = b.conv2d(block + "conv3", main, conv(4 * width, 1, 1));
  return join(b, block, x, b.batch_norm(block + "bn3", main), stride);
}

// Adds layer1 to layer4, the global average and the classifier.
Result<Graph> finish(GraphBuilder& b, TensorId x, Block block, std::int64_t width,
                     const std::array<int, 4>& blocks, std::int64_t classes) {
  for (int layer = 0; layer < 4; ++layer) {
    for (int i = 0; i < blocks[layer]; ++i) {
      const std::string name = "layer" + std::to_string(layer + 1) + "." + std::to_string(i) + ".";
      x = block(b, name, x, width << layer, layer > 0 && i == 0 ? 2 : 1);
    }
  }
  x = b.global_avg_pool("avgpool", x);
  return finish_classifier(b, b.linear("fc", x, {.out = classes}));
}

struct Variant {
  std::string_view name;
  Block block;
  std::array<int, 4> blocks;  // for the published size
  bool small_images;
};
constexpr Variant kVariants[] = {
    {"resnet18", basic_block, {2, 2, 2, 2}, true},
    {"resnet34", basic_block, {3, 4, 6, 3}, false},
    {"resnet50", bottleneck, {3, 4, 6, 3}, false},
    {"resnet101", bottleneck, {3, 4, 23, 3}, false},
    {"resnet152", bottleneck, {3, 8, 36, 3}, false},
};

}  // namespace

Result<Graph> build_resnet(const ModelRequest& in) {
  const Variant& variant = in.variant(kVariants);
  const std::int64_t width = in.width(64, 8);
  GraphBuilder& b = in.builder;
  TensorId x = b.input("image");
  if (variant.small_images) {
    x = conv_bn_relu(b, "", 1, x, conv(width, 3, 1));
  } else {
    x = conv_bn_relu(b, "", 1, x, conv(width, 7, 2));
    x = b.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  }
  const std::array<int, 4> blocks = in.tiny() ? std::array{1, 2, 1, 1} : variant.blocks;
  return finish(b, x, variant.block, width, blocks, in.spec.classes);
}

}  // namespace es::gpu
