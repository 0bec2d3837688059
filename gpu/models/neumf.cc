// NeuMF (He et al. 2017): generalised matrix factorisation and an MLP over users and items. One
// linear layer joins both and computes the logit of "the user rated the item".
#include "gpu/models/families.h"

namespace es::gpu {
namespace {

struct Config {
  std::int64_t factors;              // width of the matrix factorisation
  std::vector<std::int64_t> layers;  // widths of the MLP; the first counts user and item together
};

}  // namespace

Result<Graph> build_neumf(const ModelRequest& in) {
  const Config config = in.tiny() ? Config{4, {16, 8, 4}} : Config{8, {64, 32, 16, 8}};
  constexpr WeightInit kNormal{WeightInit::Kind::kDeviation, 0.01};
  GraphBuilder& b = in.builder;
  const auto embed = [&](const std::string& name, const char* field, std::int64_t out) {
    return b.embedding(name, b.input(field), std::int64_t{b.high(field)} + 1, out, kNormal);
  };
  // The tables are created in this order, which is the order of the parameters in the flat array.
  const TensorId user = embed("gu", "user", config.factors);
  const TensorId item = embed("gi", "item", config.factors);
  const std::int64_t half = config.layers[0] / 2;
  const TensorId mlp_user = embed("mu", "user", half);
  const TensorId mlp_item = embed("mi", "item", half);

  TensorId x = b.concat("mlp.input", {mlp_user, mlp_item}, Axis::kC);
  for (std::size_t i = 1; i < config.layers.size(); ++i) {
    const std::size_t index = 2 * (i - 1);  // index in the nn.Sequential `mlp`
    x = b.linear("mlp." + std::to_string(index), x, {.out = config.layers[i]});
    x = b.relu("mlp." + std::to_string(index + 1), x);
  }
  x = b.concat("out.input", {b.mul("gmf", user, item), x}, Axis::kC);
  const TensorId logit = b.linear("out", x, {.out = 1});
  b.bce_with_logits("loss", logit, b.input("label"));
  return b.finish({logit});
}

}  // namespace es::gpu
