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

ValueId conv_bn_relu(ModelWriter& w, const std::string& block, int number, ValueId x,
                     const Conv2dOptions& options) {
  x = w.conv(block + "conv" + std::to_string(number), x, options);
  return w.batch_norm(block + "bn" + std::to_string(number), x, Activation::kRelu);
}

// Returns relu(main + shortcut). The shortcut is x or downsample(x). The downsample is added after
// the main path, so that the parameters have torchvision's order.
ValueId join(ModelWriter& w, const std::string& block, ValueId x, ValueId main,
             std::int64_t stride) {
  ValueId shortcut = x;
  const std::int64_t out = w.extent(main, 1);
  if (stride != 1 || w.extent(x, 1) != out) {
    shortcut = w.conv(block + "downsample.0", x, conv(out, 1, stride));
    shortcut = w.batch_norm(block + "downsample.1", shortcut);
  }
  return w.relu(block + "add.relu", w.add(block + "add", main, shortcut));
}

using Block = ValueId (*)(ModelWriter&, const std::string&, ValueId, std::int64_t, std::int64_t);

ValueId basic_block(ModelWriter& w, const std::string& block, ValueId x, std::int64_t width,
                    std::int64_t stride) {
  ValueId main = conv_bn_relu(w, block, 1, x, conv(width, 3, stride));
  main = w.conv(block + "conv2", main, conv(width, 3, 1));
  return join(w, block, x, w.batch_norm(block + "bn2", main), stride);
}

ValueId bottleneck(ModelWriter& w, const std::string& block, ValueId x, std::int64_t width,
                   std::int64_t stride) {
  ValueId main = conv_bn_relu(w, block, 1, x, conv(width, 1, 1));
  main = conv_bn_relu(w, block, 2, main, conv(width, 3, stride));
  main = w.conv(block + "conv3", main, conv(4 * width, 1, 1));
  return join(w, block, x, w.batch_norm(block + "bn3", main), stride);
}

// Adds layer1 to layer4.
ValueId layers(ModelWriter& w, ValueId x, Block block, std::int64_t width,
               const std::array<int, 4>& blocks) {
  for (int layer = 0; layer < 4; ++layer) {
    for (int i = 0; i < blocks[layer]; ++i) {
      const std::string name = "layer" + std::to_string(layer + 1) + "." + std::to_string(i) + ".";
      x = block(w, name, x, width << layer, layer > 0 && i == 0 ? 2 : 1);
    }
  }
  return x;
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

Result<ModelProgram> resnet_program(const ModelRequest& in) {
  const Variant& variant = in.variant(kVariants);
  const std::int64_t width = in.width(64, 8);
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = w.input("image");
  if (variant.small_images) {
    x = conv_bn_relu(w, "", 1, x, conv(width, 3, 1));
  } else {
    x = conv_bn_relu(w, "", 1, x, conv(width, 7, 2));
    x = w.max_pool("maxpool", x, 3, 2, 1);
  }
  x = layers(w, x, variant.block, width, in.tiny() ? std::array{1, 2, 1, 1} : variant.blocks);
  x = w.image_linear("fc", w.avg_pool("avgpool", x, 1, 1), {.out = in.spec.classes});
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
