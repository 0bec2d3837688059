// VGG19 (Simonyan & Zisserman 2015) without batch norm, as torchvision builds it.
#include <array>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

// Five groups of 3x3 convolutions, each ended by a max pool 2x2.
struct Group {
  int convolutions;
  std::int64_t channels;
};
struct Config {
  std::array<Group, 5> groups;
  std::int64_t hidden;
};
constexpr Config kPublished{{{{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}}}, 4096};
constexpr Config kTiny{{{{2, 8}, {1, 8}, {1, 16}, {1, 16}, {1, 16}}}, 32};

TensorId features(GraphBuilder& b, TensorId x, const Config& config) {
  int index = 0;  // in the nn.Sequential `features`
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (const Group& group : config.groups) {
    for (int i = 0; i < group.convolutions; ++i) {
      x = b.conv2d(next(), x,
                   {.out = group.channels,
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

Result<Graph> build_vgg19(const ModelInput& in) {
  const Config& config = in.tiny() ? kTiny : kPublished;
  const double p = in.dropout(0.5);
  const auto linear = [](std::int64_t out) {
    return LinearOptions{.out = out, .init = {WeightInit::Kind::kDeviation, 0.01}};
  };
  GraphBuilder b = in.builder();
  TensorId x = features(b, b.input("image"), config);
  x = b.flatten("flatten", b.adaptive_avg_pool("avgpool", x, 7, 7));
  x = b.relu("classifier.1", b.linear("classifier.0", x, linear(config.hidden)));
  x = b.dropout("classifier.2", x, p);
  x = b.relu("classifier.4", b.linear("classifier.3", x, linear(config.hidden)));
  x = b.dropout("classifier.5", x, p);
  return finish_classifier(b, b.linear("classifier.6", x, linear(in.spec.classes)));
}

}  // namespace es::gpu
