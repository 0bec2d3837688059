// Llama (Touvron et al. 2023, Dubey et al. 2024), as transformers' LlamaForCausalLM: a pre-norm
// decoder with RMS norms, rotary position embeddings, gated feed-forward layers, and heads that
// share keys and values in groups.
#include <numbers>
#include <string_view>
#include <utility>

#include "gpu/canonical/functions_math.h"
#include "gpu/canonical/one_lane.h"
#include "gpu/models/decoder_program.h"
#include "gpu/models/families.h"

namespace es::gpu {
namespace {

struct LlamaConfig {
  std::string_view name;
  std::int64_t layers, hidden, heads, groups, feed_forward;
  std::int64_t positions;  // largest number of tokens in a sequence
  bool tied;               // the output layer is the embedding of the tokens
  float theta;             // base of the rotary frequencies
  float stretch;           // slow frequencies are divided by it (Llama 3.1); 1: they are not
};
// llama has the shape of the others at about 100 million parameters. llama_1b and llama_3b are
// those of Llama 3.2.
const LlamaConfig kLlama[] = {{"llama", 12, 768, 12, 4, 2048, 2048, true, 10000.0F, 1.0F},
                              {"llama_1b", 16, 2048, 32, 8, 8192, 131072, true, 500000.0F, 32.0F},
                              {"llama_3b", 28, 3072, 24, 8, 8192, 131072, true, 500000.0F, 32.0F}};
constexpr LlamaConfig kTinyLlama{"tiny", 2, 64, 4, 2, 176, 128, false, 10000.0F, 1.0F};

constexpr double kLlamaEps = 1e-5;
constexpr WeightInit kLlamaInit{WeightInit::Kind::kDeviation, 0.02};

// The rule "llama3" for longer contexts: frequencies that turn less than once in the original
// context of 8192 tokens are divided by `stretch`, those that turn more than four times stay, and
// between them the divisor changes evenly.
float stretched(float frequency, float stretch) {
  constexpr float kContext = 8192.0F, kSlowest = 1.0F, kFastest = 4.0F;
  if (stretch == 1.0F) return frequency;
  const float turns = kContext * frequency / (2.0F * std::numbers::pi_v<float>);
  if (turns < kSlowest) return frequency / stretch;
  if (turns > kFastest) return frequency;
  const float smooth = (turns - kSlowest) / (kFastest - kSlowest);
  return (1.0F - smooth) * frequency / stretch + smooth * frequency;
}

struct RotaryTables {
  std::vector<float> cosine;
  std::vector<float> signed_sine;  // negative in the first half of a row
};

// Element i and element i + d/2 of a head are turned by the angle position * theta^(-2i/d). The
// tables are computed with the engine's own functions, so they are the same on every machine.
RotaryTables rotary_tables(const LlamaConfig& c, std::int64_t length) {
  const std::int64_t d = c.hidden / c.heads;
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < d / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
    frequencies.push_back(stretched(1.0F / canonical_pow(c.theta, exponent), c.stretch));
  }
  RotaryTables tables;
  for (std::int64_t t = 0; t < length; ++t)
    for (const float sign : {-1.0F, 1.0F})
      for (const float frequency : frequencies) {
        const float angle = static_cast<float>(t) * frequency;
        tables.cosine.push_back(canonical_cos(angle));
        tables.signed_sine.push_back(sign * canonical_sin(angle));
      }
  return tables;
}

class LlamaWriter {
 public:
  LlamaWriter(const ModelSpec& spec, const SampleLayout& layout, const LlamaConfig& config)
      : spec_(spec), c_(config), p_(spec.name, layout, 0.0) {}

  ModelProgram run() {
    const std::int64_t rows = p_.vocabulary();
    const ValueId words = p_.parameter("model.embed_tokens.weight", {rows, c_.hidden},
                                       embedding_init(kLlamaInit, rows, c_.hidden));
    ValueId x = p_.words("model.embed_tokens", words);
    const RotaryTables tables = rotary_tables(c_, p_.length());
    const Extents shape{p_.length(), c_.hidden / c_.heads};
    const std::string cosine = "model.rotary_emb.cos", sine = "model.rotary_emb.sin";
    cosine_ = p_.at_positions(cosine, p_.constant(cosine, shape, tables.cosine));
    sine_ = p_.at_positions(sine, p_.constant(sine, shape, tables.signed_sine));
    for (std::int64_t i = 0; i < c_.layers; ++i) x = block("model.layers." + std::to_string(i), x);
    x = p_.rms_norm("model.norm", x, kLlamaEps);
    if (!c_.tied) return std::move(p_).finish(p_.linear("lm_head", x, rows, kLlamaInit), spec_);
    p_.tie(words, "lm_head.weight");
    return std::move(p_).finish(p_.linear_with("lm_head", x, words), spec_);
  }

 private:
  ValueId projected_heads(const std::string& name, ValueId x, std::int64_t heads) {
    const std::int64_t width = c_.hidden / c_.heads;
    return p_.heads(name, p_.linear(name, x, heads * width, kLlamaInit), heads);
  }

  ValueId attend(const std::string& name, ValueId x) {
    const std::string q_name = name + ".q_proj", k_name = name + ".k_proj";
    const ValueId q = projected_heads(q_name, x, c_.heads);
    const ValueId k = projected_heads(k_name, x, c_.groups);
    const ValueId v = projected_heads(name + ".v_proj", x, c_.groups);
    const ValueId turned_q = p_.rotate(q_name, q, cosine_, sine_);
    const ValueId turned_k = p_.rotate(k_name, k, cosine_, sine_);
    return p_.linear(name + ".o_proj", p_.attention(name, turned_q, turned_k, v), c_.hidden,
                     kLlamaInit);
  }

  ValueId feed_forward(const std::string& name, ValueId x) {
    ValueId gate = p_.linear(name + ".gate_proj", x, c_.feed_forward, kLlamaInit);
    gate = p_.element_wise("silu", name + ".act_fn", gate);
    const ValueId up = p_.linear(name + ".up_proj", x, c_.feed_forward, kLlamaInit);
    const ValueId y = p_.element_wise("mul", name + ".mul", gate, {up});
    return p_.linear(name + ".down_proj", y, c_.hidden, kLlamaInit);
  }

  ValueId block(const std::string& name, ValueId x) {
    const ValueId a =
        attend(name + ".self_attn", p_.rms_norm(name + ".input_layernorm", x, kLlamaEps));
    x = p_.add(name + ".add_1", x, a);
    const ValueId f =
        feed_forward(name + ".mlp", p_.rms_norm(name + ".post_attention_layernorm", x, kLlamaEps));
    return p_.add(name + ".add_2", x, f);
  }

  const ModelSpec& spec_;
  const LlamaConfig& c_;
  DecoderProgram p_;
  ValueId cosine_ = kNoValue, sine_ = kNoValue;
};

}  // namespace

Result<ModelProgram> llama_program(const ModelRequest& in) {
  const LlamaConfig& c = in.tiny() ? kTinyLlama : in.variant(kLlama);
  ES_RETURN_IF_ERROR(in.check_context(c.positions, "data.length"));
  return LlamaWriter(in.spec, in.layout, c).run();
}

}  // namespace es::gpu
