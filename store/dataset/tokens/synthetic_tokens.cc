#include "store/dataset/tokens/synthetic_tokens.h"

#include "store/dataset/layouts.h"
#include "store/dataset/word_stream.h"

namespace es::store {
namespace {

// The numbers j of synthetic_tokens.h, by three random bits.
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
