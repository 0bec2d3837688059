#pragma once
// Comparison of answers according to the official script of SQuAD v1.1. Texts are converted to
// lower case, ASCII punctuation and the words a, an and the are removed, and the rest is compared
// as words. Only ASCII letters are converted; predictions and answers come from the same text, so
// other letters agree.
#include <span>
#include <string>
#include <vector>

namespace es::store {

std::vector<std::string> normalised_words(std::string_view text);

struct AnswerScore {
  double exact = 0;  // 1 if the words are equal, otherwise 0
  double f1 = 0;     // F1 score of the words as multisets
  bool operator==(const AnswerScore&) const = default;
};

// The best value of each score over the accepted answers.
AnswerScore score_answer(std::string_view predicted, std::span<const std::string> accepted);

// The answer that the logits of a window select.
struct PredictedSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  float score = 0;
};

// Largest number of tokens of an answer (the published setting).
inline constexpr std::uint32_t kAnswerTokensMax = 30;

// The span within [first, end) with the largest start[i] + end_logits[j], i <= j; of equal spans
// the first one. A NaN is never better than another value. REQUIRES: first < end <= the size of
// both.
PredictedSpan best_span(std::span<const float> start, std::span<const float> end_logits,
                        std::uint32_t first, std::uint32_t end);

}  // namespace es::store
