// ShuffleNetV2 (Ma et al. 2018) in its four widths as torchvision builds it.
#include <array>
#include <string_view>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

using Channels = std::array<std::int64_t, 5>;  // conv1, stages 2, 3 and 4, conv5

struct Variant {
  std::string_view name;
  Channels channels;
};
constexpr Variant kVariants[] = {
    {"shufflenetv2_x0_5", {24, 48, 96, 192, 1024}},
    {"shufflenetv2", {24, 116, 232, 464, 1024}},
    {"shufflenetv2_x1_5", {24, 176, 352, 704, 1024}},
    {"shufflenetv2_x2_0", {24, 244, 488, 976, 2048}},
};
constexpr Channels kTinyChannels{8, 12, 24, 48, 64};
constexpr std::array kRepeats{4, 8, 4}, kTinyRepeats{2, 3, 2};  // number of blocks of each stage

enum class Relu { kNo, kYes };

// Adds the convolution NAME.index and the batch norm NAME.(index + 1).
TensorId conv_bn(GraphBuilder& b, const std::string& name, int index, TensorId x,
                 const Conv2dOptions& options, Relu relu) {
  x = b.conv2d(name + "." + std::to_string(index), x, options);
  return b.batch_norm(name + "." + std::to_string(index + 1), x,
                      {.activation = relu == Relu::kYes ? Activation::kRelu : Activation::kNone});
}

Conv2dOptions pointwise(std::int64_t out) {
  return {.out = out, .kernel = 1};
}

Conv2dOptions depthwise(std::int64_t channels, std::int64_t stride) {
  return {.out = channels, .kernel = 3, .stride = stride, .pad = 1, .groups = channels};
}

TensorId main_branch(GraphBuilder& b, const std::string& block, TensorId x, std::int64_t width,
                     std::int64_t stride) {
  const std::string name = block + ".branch2";
  x = conv_bn(b, name, 0, x, pointwise(width), Relu::kYes);
  x = conv_bn(b, name, 3, x, depthwise(width, stride), Relu::kNo);
  return conv_bn(b, name, 5, x, pointwise(width), Relu::kYes);
}

TensorId down_branch(GraphBuilder& b, const std::string& block, TensorId x, std::int64_t width) {
  const std::string name = block + ".branch1";
  x = conv_bn(b, name, 0, x, depthwise(b.shape(x).row(), 2), Relu::kNo);
  return conv_bn(b, name, 2, x, pointwise(width), Relu::kYes);
}

// The blocks of a stage pass on two halves of the channels. torchvision concatenates, shuffles and
// splits between two blocks; here that is one pass over the data with the same result.
TensorId stage(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels,
               int repeats) {
  const std::int64_t width = channels / 2;
  TensorId kept = down_branch(b, name + ".0", x, width);
  TensorId made = main_branch(b, name + ".0", x, width, 2);
  for (int i = 1; i < repeats; ++i) {
    const std::string block = name + "." + std::to_string(i);
    const auto [left, right] = b.concat_shuffle_split(block + ".shuffle", kept, made);
    kept = left;
    made = main_branch(b, block, right, width, 1);
  }
  return b.channel_shuffle(name + ".shuffle", b.concat(name + ".concat", {kept, made}, Axis::kC),
                           2);
}

}  // namespace

Result<Graph> build_shufflenetv2(const ModelRequest& in) {
  const Channels& channels = in.tiny() ? kTinyChannels : in.variant(kVariants).channels;
  const std::array<int, 3>& repeats = in.tiny() ? kTinyRepeats : kRepeats;
  GraphBuilder& b = in.builder;
  TensorId x = conv_bn(b, "conv1", 0, b.input("image"),
                       {.out = channels[0], .kernel = 3, .stride = 2, .pad = 1}, Relu::kYes);
  x = b.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  for (int i = 0; i < 3; ++i)
    x = stage(b, "stage" + std::to_string(i + 2), x, channels[i + 1], repeats[i]);
  x = conv_bn(b, "conv5", 0, x, pointwise(channels[4]), Relu::kYes);
  x = b.global_avg_pool("mean", x);
  return finish_classifier(b, b.linear("fc", x, {.out = in.spec.classes}));
}

}  // namespace es::gpu
