// BERT (Devlin et al. 2019) and the discriminator of ELECTRA (Clark et al. 2020) with the head for
// extractive question answering, as they are fine-tuned on SQuAD. Both are post-norm encoders. The
// head gives each token two logits: for being the first and for being the last token of the answer.
#include <numeric>
#include <string_view>

#include "gpu/models/families.h"

namespace es::gpu {
namespace {

struct Config {
  std::string_view name;
  std::string prefix;  // prefix of the encoder's parameter names
  std::int64_t layers, hidden, heads, feed_forward;
  std::int64_t embedding;  // width of the embeddings; they are projected to `hidden` if it differs
  std::int64_t positions;  // largest number of tokens in a sequence
  double dropout = 0.1;
};
const Config kVariants[] = {{"bert", "bert", 12, 768, 12, 3072, 768, 512},
                            {"bert_large", "bert", 24, 1024, 16, 4096, 1024, 512},
                            {"electra", "electra", 12, 256, 4, 1024, 128, 512},
                            {"electra_base", "electra", 12, 768, 12, 3072, 768, 512},
                            {"electra_large", "electra", 24, 1024, 16, 4096, 1024, 512}};
const Config kTiny[] = {{"bert", "bert", 2, 128, 4, 512, 128, 64},
                        {"bert_large", "bert", 2, 128, 4, 512, 128, 64},
                        {"electra", "electra", 2, 64, 2, 128, 32, 64},
                        {"electra_base", "electra", 2, 128, 4, 512, 128, 64},
                        {"electra_large", "electra", 2, 128, 4, 512, 128, 64}};

constexpr double kEps = 1e-12;  // of layer norm
constexpr WeightInit kInit{WeightInit::Kind::kDeviation, 0.02};

ValueId linear(ModelWriter& w, const std::string& name, ValueId x, std::int64_t out) {
  return w.linear(name, x, {.out = out, .init = kInit});
}

template <class Number>
std::vector<Number> ascending(std::int64_t count) {
  std::vector<Number> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), Number{0});
  return numbers;
}

ValueId embeddings(ModelWriter& w, const Config& c, const ModelRequest& in) {
  const std::string name = c.prefix + ".embeddings.";
  const std::int64_t tokens = in.field("ids").height;
  const auto ids = [&](const char* field) {
    return w.reshape("", w.input(field), per_sample({tokens}));
  };
  const auto embed = [&](const std::string& table, ValueId places, std::int64_t rows) {
    return w.embedding(name + table + ".weight", places, rows, c.embedding, kInit);
  };
  const ValueId place =
      w.integers(name + "position_ids", {1, tokens}, ascending<std::int32_t>(tokens));
  const ValueId words = embed("word_embeddings", ids("ids"), in.values("ids"));
  const ValueId positions = embed("position_embeddings", place, c.positions);
  const ValueId types = embed("token_type_embeddings", ids("types"), 2);
  ValueId x = w.add(name + "add_types", words, types);
  // The types are added before the positions. Another order of these two additions would give other
  // bits.
  x = w.add(name + "add_positions", x, positions);
  x = w.layer_norm(name + "LayerNorm", x, kEps);
  x = w.dropout(name + "dropout", x, c.dropout);
  return c.embedding == c.hidden ? x : linear(w, c.prefix + ".embeddings_project", x, c.hidden);
}

// Returns LayerNorm(x + dropout(dense(y))).
ValueId output(ModelWriter& w, const std::string& name, ValueId x, ValueId y, const Config& c) {
  y = w.dropout(name + ".dropout", linear(w, name + ".dense", y, c.hidden), c.dropout);
  return w.layer_norm(name + ".LayerNorm", w.add(name + ".add", y, x), kEps);
}

ValueId layer(ModelWriter& w, const std::string& name, ValueId x, const Config& c) {
  const std::string self = name + ".attention.self";
  std::vector<ValueId> qkv;
  for (const char* part : {".query", ".key", ".value"})
    qkv.push_back(linear(w, self + part, x, c.hidden));
  for (ValueId& part : qkv) part = w.heads(self, part, c.heads);
  // The length masks the tokens of padding behind the end of the sequence.
  const ValueId context = w.attention(self, qkv[0], qkv[1], qkv[2],
                                      {.length = w.input("length"), .dropout = c.dropout});
  x = output(w, name + ".attention.output", x, context, c);
  ValueId y = linear(w, name + ".intermediate.dense", x, c.feed_forward);
  y = w.gelu(name + ".intermediate.gelu", y);
  return output(w, name + ".output", x, y, c);
}

Config config_of(const ModelRequest& in) {
  Config config = in.tiny() ? in.variant(kTiny) : in.variant(kVariants);
  config.dropout = in.dropout(config.dropout);
  return config;
}

}  // namespace

Result<ModelProgram> encoder_qa_program(const ModelRequest& in) {
  const Config c = config_of(in);
  ES_RETURN_IF_ERROR(in.check_context(c.positions, "data.tokens"));
  const std::int64_t tokens = in.field("ids").height;
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = embeddings(w, c, in);
  for (std::int64_t i = 0; i < c.layers; ++i)
    x = layer(w, c.prefix + ".encoder.layer." + std::to_string(i), x, c);
  x = linear(w, "qa_outputs", x, 2);
  // The loss is one softmax over the tokens for the first token of each answer and one for the
  // last. An evaluation has the tokens on the last axis, and a cross entropy has them on axis 1.
  const ValueId by_token = w.reshape("", x, per_sample({tokens, 1, 2}));
  const ValueId by_end = w.permute("qa_outputs.permute", by_token, {0, 3, 2, 1});
  const ValueId logits = w.reshape("", by_end, per_sample({2, tokens}));
  const ValueId classes = w.permute("loss", logits, {0, 2, 1});
  const ValueId span = w.reshape("", w.input("span"), per_sample({2}));
  const ValueId loss = w.cross_entropy(classes, span);
  return std::move(w).finish(loss, {logits});
}

// The library transformers kept this buffer in state dicts until version 4.31.
std::vector<BufferInfo> encoder_qa_old_buffers(const ModelRequest& in) {
  const Config c = config_of(in);
  return {{.name = c.prefix + ".embeddings.position_ids",
           .torch_shape = {1, c.positions},
           .dtype = "I64",
           .values = ascending<double>(c.positions),
           .current = false}};
}

}  // namespace es::gpu
