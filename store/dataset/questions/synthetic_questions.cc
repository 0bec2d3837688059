// Questions that need no file and that an attention model can learn to answer.
//
// A vocabulary of V tokens has 4 special tokens (padding, unknown, [CLS], [SEP]), one token for
// each of K = min(16, (V - 4) / 6) kinds of question, one key token for each kind, answer tokens
// (half of the rest) and filler. The question is one token, of kind k. Each half of the context has
// one key, followed by one to three answer tokens; all other tokens are filler. The answer follows
// the key of kind k, in one of the halves; the key of the other half is of another kind (if K > 1).
// The context has (T - 4) / 2 (at least 4) to T - 4 tokens.
//
// Samples are drawn by Philox from (half, number of the sample); there is no seed.
#include "store/dataset/sources.h"

#include <algorithm>

#include "store/dataset/layouts.h"
#include "store/dataset/questions/question_block.h"
#include "store/dataset/word_stream.h"

namespace es::store {
namespace {

constexpr std::uint32_t kFirstKind = 4;  // follows the special tokens
constexpr SpecialTokens kSpecial{.pad = 0, .cls = 2, .sep = 3};
constexpr std::uint32_t kAnswerMax = 3;
constexpr std::uint32_t kContextMin = 4;

struct Drawn {
  std::int32_t question = 0;
  std::vector<std::int32_t> context;
  ContextSpan answer;
};

class SyntheticQuestionSource final : public RecordSource {
 public:
  explicit SyntheticQuestionSource(const DataSpec& spec)
      : RecordSource({.layout = question_layout(spec.tokens, spec.vocabulary),
                      .train_count = spec.samples,
                      .eval_count = spec.eval_samples}),
        room_(spec.tokens - kSpecialCount - 1),
        kinds_(std::min(16u, (spec.vocabulary - kFirstKind) / 6)),
        first_answer_(kFirstKind + 2 * kinds_),
        first_filler_((first_answer_ + spec.vocabulary) / 2),
        vocabulary_(spec.vocabulary) {}

  QuestionWindow question_window(std::uint64_t index) const override {
    const Drawn drawn = draw(Half::kEval, index);
    const std::uint32_t first = context_offset(1);
    return {index,
            first,
            first + static_cast<std::uint32_t>(drawn.context.size()),
            {text(drawn, drawn.answer)}};
  }

  // The words of the text are the numbers of the tokens.
  std::string answer_text(std::uint64_t index, std::uint32_t first,
                          std::uint32_t last) const override {
    const Drawn drawn = draw(Half::kEval, index);
    const std::uint32_t offset = context_offset(1);
    ES_CHECK(first >= offset && first <= last && last - offset < drawn.context.size());
    return text(drawn, {first - offset, last - offset});
  }

 private:
  static std::string text(const Drawn& drawn, ContextSpan span) {
    std::string words;
    for (std::uint32_t i = span.first; i <= span.last; ++i)
      words += (i > span.first ? " " : "") + std::to_string(drawn.context[i]);
    return words;
  }

  // Writes a key and its answer tokens at a random place in [begin, end) of the context, which has
  // at least two tokens.
  ContextSpan place(std::uint32_t kind, std::uint32_t begin, std::uint32_t end, WordStream& words,
                    std::vector<std::int32_t>& context) const {
    const std::uint32_t length = 1 + words.next_below(std::min(kAnswerMax, end - begin - 1));
    const std::uint32_t key = begin + words.next_below(end - begin - length);
    context[key] = static_cast<std::int32_t>(kFirstKind + kinds_ + kind);
    for (std::uint32_t i = 1; i <= length; ++i)
      context[key + i] = static_cast<std::int32_t>(first_answer_ +
                                                   words.next_below(first_filler_ - first_answer_));
    return {key + 1, key + length};
  }

  Drawn draw(Half half, std::uint64_t index) const {
    WordStream words(index, stream_key(0, DataStream::kSyntheticQuestion, half == Half::kEval));
    Drawn drawn;
    const std::uint32_t shortest = std::max(kContextMin, room_ / 2);
    drawn.context.resize(shortest + words.next_below(room_ - shortest + 1));
    for (std::int32_t& id : drawn.context)
      id = static_cast<std::int32_t>(first_filler_ + words.next_below(vocabulary_ - first_filler_));
    const std::uint32_t kind = words.next_below(kinds_);
    const std::uint32_t other = (kind + 1 + words.next_below(std::max(1u, kinds_ - 1))) % kinds_;
    drawn.question = static_cast<std::int32_t>(kFirstKind + kind);
    const auto size = static_cast<std::uint32_t>(drawn.context.size());
    const bool first_half = words.next_below(2) == 0;
    const auto a = place(first_half ? kind : other, 0, size / 2, words, drawn.context);
    const auto b = place(first_half ? other : kind, size / 2, size, words, drawn.context);
    drawn.answer = first_half ? a : b;
    return drawn;
  }

  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch&) const override {
    const Drawn drawn = draw(half, index);
    write_question(block, position, kSpecial, std::span(&drawn.question, 1), drawn.context,
                   drawn.answer);
    return {};
  }

  std::uint32_t room_;  // largest number of tokens of a context
  std::uint32_t kinds_, first_answer_, first_filler_, vocabulary_;
};

}  // namespace

std::shared_ptr<const SampleSource> synthetic_question_source(const DataSpec& spec) {
  ES_CHECK(spec.tokens >= 8 && spec.vocabulary >= 16);
  return std::make_shared<SyntheticQuestionSource>(spec);
}

}  // namespace es::store
