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

Result<ModelProgram> neumf_program(const ModelRequest& in) {
  const Config config = in.tiny() ? Config{4, {16, 8, 4}} : Config{8, {64, 32, 16, 8}};
  constexpr WeightInit kNormal{WeightInit::Kind::kDeviation, 0.01};
  ModelWriter w(in.spec.name, in.layout);
  const auto embed = [&](const std::string& name, const char* field, std::int64_t out) {
    return w.embedding(name + ".weight", w.input(field), in.values(field), out, kNormal);
  };
  // The tables are created in this order, which is the order of the parameters in the flat array.
  const ValueId user = embed("gu", "user", config.factors);
  const ValueId item = embed("gi", "item", config.factors);
  const std::int64_t half = config.layers[0] / 2;
  const ValueId mlp_user = embed("mu", "user", half);
  const ValueId mlp_item = embed("mi", "item", half);

  ValueId x = w.concat("mlp.input", {mlp_user, mlp_item}, 1);
  for (std::size_t i = 1; i < config.layers.size(); ++i) {
    const std::size_t index = 2 * (i - 1);  // index in the nn.Sequential `mlp`
    x = w.linear("mlp." + std::to_string(index), x, {.out = config.layers[i]});
    x = w.relu("mlp." + std::to_string(index + 1), x);
  }
  x = w.concat("out.input", {w.element_wise("mul", "gmf", user, {item}), x}, 1);
  const ValueId logit = w.linear("out", x, {.out = 1});
  const ValueId label = w.reshape("", w.input("label"), per_sample({1}));
  const ValueId loss =
      w.node("bce_with_logits", "loss", {logit, label}, {}, {{"reduction", "mean"}});
  return std::move(w).finish(loss, {logit});
}

}  // namespace es::gpu
