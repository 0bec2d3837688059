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

TensorId linear(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out) {
  return b.linear(name, x, {.out = out, .init = kInit});
}

std::vector<double> ascending(std::int64_t count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

TensorId embeddings(GraphBuilder& b, const Config& c) {
  const std::string name = c.prefix + ".embeddings.";
  const TensorId ids = b.input("ids");
  const std::int64_t tokens = b.image(ids).h;
  std::vector<std::int32_t> places(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
  const TensorId place = b.constant_ids(name + "position_ids", {1, tokens, 1, 1}, places);

  // The library transformers kept this buffer in state dicts until version 4.31.
  b.state_dict_buffer({.name = name + "position_ids",
                       .torch_shape = {1, c.positions},
                       .dtype = "I64",
                       .values = ascending(c.positions),
                       .current = false});

  const TensorId words = b.embedding(name + "word_embeddings", ids, std::int64_t{b.high("ids")} + 1,
                                     c.embedding, kInit);
  const TensorId positions =
      b.embedding(name + "position_embeddings", place, c.positions, c.embedding, kInit);
  const TensorId types =
      b.embedding(name + "token_type_embeddings", b.input("types"), 2, c.embedding, kInit);
  TensorId x = b.add(name + "add_types", words, types);
  // The types are added before the positions. Another order of these two additions would give other
  // bits.
  x = b.add_rows(name + "add_positions", x, positions);
  x = b.layer_norm(name + "LayerNorm", x, kEps);
  x = b.dropout(name + "dropout", x, c.dropout);
  return c.embedding == c.hidden ? x : linear(b, c.prefix + ".embeddings_project", x, c.hidden);
}

// Returns LayerNorm(x + dropout(dense(y))).
TensorId output(GraphBuilder& b, const std::string& name, TensorId x, TensorId y, const Config& c) {
  y = b.dropout(name + ".dropout", linear(b, name + ".dense", y, c.hidden), c.dropout);
  return b.layer_norm(name + ".LayerNorm", b.add(name + ".add", y, x), kEps);
}

TensorId layer(GraphBuilder& b, const std::string& name, TensorId x, TensorId length,
               const Config& c) {
  const std::string self = name + ".attention.self";
  const TensorId q = linear(b, self + ".query", x, c.hidden);
  const TensorId k = linear(b, self + ".key", x, c.hidden);
  const TensorId v = linear(b, self + ".value", x, c.hidden);
  // The length masks the tokens of padding behind the end of the sequence.
  const TensorId context =
      b.attention(self, q, k, v, {.heads = c.heads, .length = length, .dropout = c.dropout});
  x = output(b, name + ".attention.output", x, context, c);
  TensorId y = linear(b, name + ".intermediate.dense", x, c.feed_forward);
  y = b.gelu(name + ".intermediate.gelu", y);
  return output(b, name + ".output", x, y, c);
}

Result<Graph> build(const ModelRequest& in, const Config& c) {
  GraphBuilder& b = in.builder;
  ES_RETURN_IF_ERROR(check_context(in.spec, b.image(b.input("ids")).h, c.positions, "data.tokens"));
  TensorId x = embeddings(b, c);
  const TensorId length = b.input("length");
  for (std::int64_t i = 0; i < c.layers; ++i)
    x = layer(b, c.prefix + ".encoder.layer." + std::to_string(i), x, length, c);
  x = linear(b, "qa_outputs", x, 2);
  // The loss is one softmax over the tokens for the first token of each answer and one for the
  // last. The permutation moves the tokens to the last axis, over which the softmax runs.
  const TensorId logits =
      b.permute("qa_outputs.permute", x, {Axis::kN, Axis::kC, Axis::kW, Axis::kH});
  b.cross_entropy("loss", logits, b.input("span"));
  return b.finish({logits});
}

}  // namespace

Result<Graph> build_encoder_qa(const ModelRequest& in) {
  Config config = in.tiny() ? in.variant(kTiny) : in.variant(kVariants);
  config.dropout = in.dropout(config.dropout);
  return build(in, config);
}

}  // namespace es::gpu
