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
ValueId conv_bn(ModelWriter& w, const std::string& name, int index, ValueId x,
                const Conv2dOptions& options, Relu relu) {
  x = w.conv(name + "." + std::to_string(index), x, options);
  return w.batch_norm(name + "." + std::to_string(index + 1), x,
                      relu == Relu::kYes ? Activation::kRelu : Activation::kNone);
}

Conv2dOptions pointwise(std::int64_t out) {
  return {.out = out, .kernel = 1};
}

Conv2dOptions depthwise(std::int64_t channels, std::int64_t stride) {
  return {.out = channels, .kernel = 3, .stride = stride, .pad = 1, .groups = channels};
}

ValueId main_branch(ModelWriter& w, const std::string& block, ValueId x, std::int64_t width,
                    std::int64_t stride) {
  const std::string name = block + ".branch2";
  x = conv_bn(w, name, 0, x, pointwise(width), Relu::kYes);
  x = conv_bn(w, name, 3, x, depthwise(width, stride), Relu::kNo);
  return conv_bn(w, name, 5, x, pointwise(width), Relu::kYes);
}

ValueId down_branch(ModelWriter& w, const std::string& block, ValueId x, std::int64_t width) {
  const std::string name = block + ".branch1";
  x = conv_bn(w, name, 0, x, depthwise(w.extent(x, 1), 2), Relu::kNo);
  return conv_bn(w, name, 2, x, pointwise(width), Relu::kYes);
}

// The channels as [2,c/2], transposed.
ValueId shuffled(ModelWriter& w, const std::string& name, ValueId x) {
  const ModelDims from = w.dims(x);
  const ValueId split =
      w.reshape(name, x, per_sample({2, from[1].size / 2, from[2].size, from[3].size}));
  return w.reshape(name, w.permute(name, split, {0, 2, 1, 3, 4}), from);
}

// The blocks of a stage pass on two halves of the channels.
ValueId stage(ModelWriter& w, const std::string& name, ValueId x, std::int64_t channels,
              int repeats) {
  const std::int64_t width = channels / 2;
  ValueId kept = down_branch(w, name + ".0", x, width);
  ValueId made = main_branch(w, name + ".0", x, width, 2);
  for (int i = 1; i < repeats; ++i) {
    const std::string block = name + "." + std::to_string(i), shuffle = block + ".shuffle";
    const ValueId all = shuffled(w, shuffle, w.concat(shuffle, {kept, made}, 1));
    kept = w.slice(shuffle, all, 1, 0, width);
    made = main_branch(w, block, w.slice(shuffle, all, 1, width, channels), width, 1);
  }
  return shuffled(w, name + ".shuffle", w.concat(name + ".concat", {kept, made}, 1));
}

}  // namespace

Result<ModelProgram> shufflenetv2_program(const ModelRequest& in) {
  const Channels& channels = in.tiny() ? kTinyChannels : in.variant(kVariants).channels;
  const std::array<int, 3>& repeats = in.tiny() ? kTinyRepeats : kRepeats;
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = conv_bn(w, "conv1", 0, w.input("image"),
                      {.out = channels[0], .kernel = 3, .stride = 2, .pad = 1}, Relu::kYes);
  x = w.max_pool("maxpool", x, 3, 2, 1);
  for (int i = 0; i < 3; ++i)
    x = stage(w, "stage" + std::to_string(i + 2), x, channels[i + 1], repeats[i]);
  x = conv_bn(w, "conv5", 0, x, pointwise(channels[4]), Relu::kYes);
  x = w.image_linear("fc", w.avg_pool("mean", x, 1, 1), {.out = in.spec.classes});
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
