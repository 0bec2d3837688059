// GPT-2 (Radford et al. 2019), as transformers' GPT2LMHeadModel: a pre-norm decoder with learned
// positions whose output layer is the embedding of the tokens.
#include <cmath>
#include <string_view>

#include "gpu/models/decoder_program.h"
#include "gpu/models/families.h"

namespace es::gpu {
namespace {

struct Gpt2Config {
  std::string_view name;
  std::int64_t layers, hidden, heads;
  std::int64_t positions;  // largest number of tokens in a sequence
};
const Gpt2Config kGpt2[] = {{"gpt2", 12, 768, 12, 1024},
                            {"gpt2_medium", 24, 1024, 16, 1024},
                            {"gpt2_large", 36, 1280, 20, 1024},
                            {"gpt2_xl", 48, 1600, 25, 1024}};
constexpr Gpt2Config kTinyGpt2{"tiny", 2, 64, 4, 128};

constexpr double kDropout = 0.1;
constexpr double kEps = 1e-5;
constexpr double kDeviation = 0.02;

WeightInit deviation(double value) {
  return {WeightInit::Kind::kDeviation, value};
}

// The layers that end a residual branch begin with smaller weights, by the number of branches.
WeightInit residual_init(const Gpt2Config& c) {
  return deviation(kDeviation / std::sqrt(2.0 * static_cast<double>(c.layers)));
}

ValueId gpt2_attention(DecoderProgram& p, const std::string& name, ValueId x, const Gpt2Config& c) {
  const ValueId packed = p.conv1d(name + ".c_attn", x, 3 * c.hidden, deviation(kDeviation));
  const auto part = [&](std::int64_t i) {
    return p.heads(name, p.slice(name, packed, 2, i * c.hidden, (i + 1) * c.hidden), c.heads);
  };
  const ValueId q = part(0), k = part(1), v = part(2);
  const ValueId context = p.attention(name, q, k, v);
  return p.dropout(name + ".resid_dropout",
                   p.conv1d(name + ".c_proj", context, c.hidden, residual_init(c)));
}

ValueId gpt2_feed_forward(DecoderProgram& p, const std::string& name, ValueId x,
                          const Gpt2Config& c) {
  ValueId y = p.conv1d(name + ".c_fc", x, 4 * c.hidden, deviation(kDeviation));
  y = p.gelu(name + ".act", y, "tanh");
  return p.dropout(name + ".dropout", p.conv1d(name + ".c_proj", y, c.hidden, residual_init(c)));
}

ValueId gpt2_block(DecoderProgram& p, const std::string& name, ValueId x, const Gpt2Config& c) {
  const ValueId a = gpt2_attention(p, name + ".attn", p.layer_norm(name + ".ln_1", x, kEps), c);
  x = p.add(name + ".add_1", x, a);
  const ValueId f = gpt2_feed_forward(p, name + ".mlp", p.layer_norm(name + ".ln_2", x, kEps), c);
  return p.add(name + ".add_2", x, f);
}

}  // namespace

Result<ModelProgram> gpt2_program(const ModelRequest& in) {
  const Gpt2Config& c = in.tiny() ? kTinyGpt2 : in.variant(kGpt2);
  ES_RETURN_IF_ERROR(in.check_context(c.positions, "data.length"));
  DecoderProgram p(in.spec.name, in.layout, in.dropout(kDropout));
  const WeightInit init = deviation(kDeviation);
  const ValueId words = p.parameter("transformer.wte.weight", {p.vocabulary(), c.hidden},
                                    embedding_init(init, p.vocabulary(), c.hidden));
  p.tie(words, "lm_head.weight");
  ValueId x = p.words("transformer.wte", words);
  x = p.add("transformer.add_positions", x,
            p.positions("transformer.wpe", c.positions, c.hidden, init));
  x = p.dropout("transformer.drop", x);
  for (std::int64_t i = 0; i < c.layers; ++i)
    x = gpt2_block(p, "transformer.h." + std::to_string(i), x, c);
  x = p.layer_norm("transformer.ln_f", x, kEps);
  return std::move(p).finish(p.linear_with("lm_head", x, words), in.spec);
}

}  // namespace es::gpu
