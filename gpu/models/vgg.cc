// VGG (Simonyan & Zisserman 2015) without batch norm as torchvision builds it.
#include <array>
#include <string_view>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

// There are five groups of 3x3 convolutions; a 2x2 max pool ends each group.
constexpr std::size_t kGroups = 5;
using Counts = std::array<int, kGroups>;
using Channels = std::array<std::int64_t, kGroups>;

struct Variant {
  std::string_view name;
  Counts convolutions;  // of each group, in the published size
};
constexpr Variant kVariants[] = {{"vgg11", {1, 1, 2, 2, 2}},
                                 {"vgg13", {2, 2, 2, 2, 2}},
                                 {"vgg16", {2, 2, 3, 3, 3}},
                                 {"vgg19", {2, 2, 4, 4, 4}}};
constexpr Counts kTinyConvolutions{2, 1, 1, 1, 1};
constexpr Channels kChannels{64, 128, 256, 512, 512}, kTinyChannels{8, 8, 16, 16, 16};

ValueId features(ModelWriter& w, ValueId x, const Counts& convolutions, const Channels& channels) {
  int index = 0;  // index in the nn.Sequential `features`
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (std::size_t group = 0; group < kGroups; ++group) {
    for (int i = 0; i < convolutions[group]; ++i) {
      x = w.conv(next(), x,
                 {.out = channels[group],
                  .kernel = 3,
                  .pad = 1,
                  .bias = true,
                  .init = {WeightInit::Kind::kFanOutRelu}});
      x = w.relu(next(), x);
    }
    x = w.max_pool(next(), x, 2, 2);
  }
  return x;
}

}  // namespace

Result<ModelProgram> vgg_program(const ModelRequest& in) {
  const std::int64_t hidden = in.tiny() ? 32 : 4096;
  const double p = in.dropout(0.5);
  const auto linear = [](std::int64_t out) {
    return LinearOptions{.out = out, .init = {WeightInit::Kind::kDeviation, 0.01}};
  };
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = features(w, w.input("image"),
                       in.tiny() ? kTinyConvolutions : in.variant(kVariants).convolutions,
                       in.tiny() ? kTinyChannels : kChannels);
  x = w.image_linear("classifier.0", w.avg_pool("avgpool", x, 7, 7), linear(hidden));
  x = w.dropout("classifier.2", w.relu("classifier.1", x), p);
  x = w.relu("classifier.4", w.linear("classifier.3", x, linear(hidden)));
  x = w.dropout("classifier.5", x, p);
  x = w.linear("classifier.6", x, linear(in.spec.classes));
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
