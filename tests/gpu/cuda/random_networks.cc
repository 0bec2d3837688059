#include "tests/gpu/cuda/random_networks.h"

#include <string>

#include "gpu/graph/builder.h"
#include "proto/base/check.h"

namespace es::test {
namespace {

using namespace es::gpu;

std::int64_t between(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Half of the networks compute parts of themselves again in the backward pass.
Graph finish(GraphBuilder& b, TensorId logits, std::mt19937_64& random) {
  b.cross_entropy("loss", logits, b.input("label"));
  auto graph = b.finish({logits});
  ES_CHECK_MSG(graph.ok(), graph.ok() ? "" : graph.error().message);
  if (between(random, 0, 1) == 1)
    for (Op& op : graph->ops) op.region = static_cast<std::uint32_t>(between(random, 0, 2));
  return *std::move(graph);
}

TensorId convolution(GraphBuilder& b, const std::string& name, TensorId x, std::mt19937_64& random,
                     std::int64_t side) {
  const std::int64_t c = b.shape(x).row();
  const std::int64_t kernel = 1 + 2 * between(random, 0, 2);
  const std::int64_t groups[] = {1, 1, c, c % 2 == 0 ? 2 : 1};
  const std::int64_t group = groups[between(random, 0, 3)];
  const std::int64_t out = group == 1 ? between(random, 1, 2 * side) : c * between(random, 1, 2);
  return b.conv2d(name, x,
                  {.out = group == c && group > 1 ? c : out,
                   .kernel = kernel,
                   .stride = between(random, 1, 2),
                   .pad = kernel / 2,
                   .groups = group,
                   .bias = between(random, 0, 1) == 1});
}

TensorId pooled(GraphBuilder& b, TensorId x, std::mt19937_64& random) {
  if (b.image(x).h < 3 || b.image(x).w < 3) return x;
  switch (between(random, 0, 3)) {
    case 0:
      return b.max_pool("pool", x, {.kernel = 3, .stride = 2, .pad = 1});
    case 1:
      return b.avg_pool("pool", x, {.kernel = 2, .stride = 1});
    case 2:
      return b.adaptive_avg_pool("pool", x, between(random, 1, 4), between(random, 1, 4));
    default:
      return b.upsample2("pool", x);
  }
}

}  // namespace

Graph random_image_network(std::mt19937_64& random, std::int64_t side) {
  const std::int64_t classes = between(random, 2, 40);
  GraphBuilder b(
      "images", between(random, 1, 5),
      {{{"image", FieldType::kF32, between(random, 5, side), between(random, 5, side),
         between(random, 1, side)},
        {"label", FieldType::kI32, 1, 1, 1, 0, static_cast<std::int32_t>(classes - 1)}}});
  TensorId x = b.input("image");
  for (const std::string name : {"0", "1", "2"}) {
    x = convolution(b, name + ".conv", x, random, side);
    // A norm of one value per channel is refused.
    if (b.shape(x).rows() > 1)
      x = b.batch_norm(name + ".norm", x, {.activation = Activation::kRelu});
  }
  x = pooled(b, x, random);
  const TensorId flat =
      between(random, 0, 1) == 0 ? b.flatten("flatten", x) : b.global_avg_pool("mean", x);
  const TensorId hidden = b.gelu("gelu", b.linear("up", flat, {.out = between(random, 1, 150)}));
  return finish(b, b.linear("head", hidden, {.out = classes}), random);
}

Graph random_token_network(std::mt19937_64& random, std::int64_t side) {
  const std::int64_t classes = between(random, 2, 40), rows = between(random, 2, 100);
  const std::int64_t tokens = between(random, 2, 2 * side), heads = between(random, 1, 4);
  const std::int64_t width = heads * between(random, 1, side);
  GraphBuilder b(
      "tokens", between(random, 1, 4),
      {{{"ids", FieldType::kI32, static_cast<std::uint32_t>(tokens), 1, 1, 0,
         static_cast<std::int32_t>(rows - 1)},
        {"length", FieldType::kI32, 1, 1, 1, 1, static_cast<std::int32_t>(tokens)},
        {"label", FieldType::kI32, 1, 1, 1, 0, static_cast<std::int32_t>(classes - 1)}}});
  TensorId x = b.layer_norm(
      "norm", b.embedding("words", b.input("ids"), rows, width, {WeightInit::Kind::kXavier}), 1e-5);
  const TensorId qkv = b.linear("qkv", b.dropout("drop", x, 0.1), {.out = 3 * width});
  const TensorId y =
      b.attention("attention", qkv, {.heads = heads, .length = b.input("length"), .dropout = 0.1});
  x = b.layer_norm("norm1", b.add("sum", x, b.linear("out", y, {.out = width})), 1e-12);
  x = b.tanh("tanh", b.linear("up", b.softmax("softmax", x), {.out = between(random, 1, 150)}));
  return finish(b, b.linear("head", b.flatten("flatten", x), {.out = classes}), random);
}

}  // namespace es::test
