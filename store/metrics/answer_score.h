#pragma once
// Comparison of answers as SQuAD v1.1's official script does it: texts are lower-cased, ASCII
// punctuation and the words a, an, the are removed, and what is left is compared as words. Only
// ASCII letters are lower-cased: predictions and answers are cut from the same text.
#include <span>
#include <string>
#include <vector>

namespace es::store {

std::vector<std::string> normalised_words(std::string_view text);

struct AnswerScore {
  double exact = 0;  // 1 when the words are the same
  double f1 = 0;     // of the words as a multiset
  bool operator==(const AnswerScore&) const = default;
};

// The best of each over the accepted answers.
AnswerScore score_answer(std::string_view predicted, std::span<const std::string> accepted);

// The answer that a window's logits name.
struct PredictedSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  float score = 0;
};

// An answer has at most this many tokens (the published setting).
inline constexpr std::uint32_t kAnswerTokensMax = 30;

// The span within [first, end) with the largest start[i] + end_logits[j], i <= j; the first one of
// equals. REQUIRES: first < end <= the size of both. NaNs are never better than another.
PredictedSpan best_span(std::span<const float> start, std::span<const float> end_logits,
                        std::uint32_t first, std::uint32_t end);

}  // namespace es::store
