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

TensorId features(GraphBuilder& b, TensorId x, const Counts& convolutions,
                  const Channels& channels) {
  int index = 0;  // index in the nn.Sequential `features`
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (std::size_t group = 0; group < kGroups; ++group) {
    for (int i = 0; i < convolutions[group]; ++i) {
      x = b.conv2d(next(), x,
                   {.out = channels[group],
                    .kernel = 3,
                    .pad = 1,
                    .bias = true,
                    .init = {WeightInit::Kind::kFanOutRelu}});
      x = b.relu(next(), x);
    }
    x = b.max_pool(next(), x, {.kernel = 2, .stride = 2});
  }
  return x;
}

}  // namespace

Result<Graph> build_vgg(const ModelRequest& in) {
  const std::int64_t hidden = in.tiny() ? 32 : 4096;
  const double p = in.dropout(0.5);
  const auto linear = [](std::int64_t out) {
    return LinearOptions{.out = out, .init = {WeightInit::Kind::kDeviation, 0.01}};
  };
  GraphBuilder& b = in.builder;
  TensorId x = features(b, b.input("image"),
                        in.tiny() ? kTinyConvolutions : in.variant(kVariants).convolutions,
                        in.tiny() ? kTinyChannels : kChannels);
  x = b.flatten("flatten", b.adaptive_avg_pool("avgpool", x, 7, 7));
  x = b.relu("classifier.1", b.linear("classifier.0", x, linear(hidden)));
  x = b.dropout("classifier.2", x, p);
  x = b.relu("classifier.4", b.linear("classifier.3", x, linear(hidden)));
  x = b.dropout("classifier.5", x, p);
  return finish_classifier(b, b.linear("classifier.6", x, linear(in.spec.classes)));
}

}  // namespace es::gpu
