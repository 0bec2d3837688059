// Sequences of tokens that need no file and that a language model can learn to predict.
//
// The first token of a sequence is drawn from the vocabulary of V tokens. A token t is followed by
// (5 t + 1 + 7 j) mod V, where j is 0 with the probability 1/2, 1 with 1/4, and 2 or 3 with 1/8
// each. So the loss of a perfect model tends to the entropy of j, 1.75 ln 2 = 1.213 (perplexity
// 3.364), if these four tokens differ.
//
// Samples are drawn by Philox from (half, number of the sample); there is no seed.
#include "store/dataset/sources.h"

#include "store/dataset/layouts.h"
#include "store/dataset/word_stream.h"

namespace es::store {
namespace {

// The numbers j, by three random bits.
constexpr std::uint32_t kBranches[8] = {0, 0, 0, 0, 1, 1, 2, 3};

class SyntheticTokenSource final : public RecordSource {
 public:
  explicit SyntheticTokenSource(const DataSpec& spec)
      : RecordSource({.layout = token_layout(spec.length, spec.vocabulary),
                      .train_count = spec.samples,
                      .eval_count = spec.eval_samples}),
        length_(spec.length),
        vocabulary_(spec.vocabulary) {}

 private:
  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch&) const override {
    WordStream words(index, stream_key(0, DataStream::kSyntheticTokens, half == Half::kEval));
    std::uint64_t token = words.next_below(vocabulary_);
    for (std::size_t i = 0; i < length_; ++i) {
      block.set_i32(token_field::kIds, position, i, static_cast<std::int32_t>(token));
      token = (5 * token + 1 + 7 * kBranches[words.next_below(8)]) % vocabulary_;
      block.set_i32(token_field::kLabels, position, i, static_cast<std::int32_t>(token));
    }
    return {};
  }

  std::size_t length_;
  std::uint32_t vocabulary_;
};

}  // namespace

std::shared_ptr<const SampleSource> synthetic_token_source(const DataSpec& spec) {
  ES_CHECK(spec.vocabulary >= 1);
  return std::make_shared<SyntheticTokenSource>(spec);
}

}  // namespace es::store
