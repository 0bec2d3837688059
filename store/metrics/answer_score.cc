#include "store/metrics/answer_score.h"

#include <algorithm>
#include <cstdint>

#include "proto/base/check.h"

namespace es::store {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

void end_word(std::string& word, std::vector<std::string>& words) {
  if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
  word.clear();
}

double f1_of(const std::vector<std::string>& predicted, std::vector<std::string> accepted) {
  std::size_t common = 0;
  for (const std::string& word : predicted) {
    const auto at = std::find(accepted.begin(), accepted.end(), word);
    if (at == accepted.end()) continue;
    // A word counts as often as it occurs in both texts.
    accepted.erase(at);
    ++common;
  }
  if (common == 0) return 0.0;
  // F1 = 2 P R / (P + R), with the precision P = common / predicted and the recall R = common /
  // accepted, is 2 common / (predicted + accepted). `accepted` has lost the common words, so they
  // are added again.
  const double all = static_cast<double>(predicted.size() + accepted.size() + common);
  return 2.0 * static_cast<double>(common) / all;
}

}  // namespace

std::vector<std::string> normalised_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    // Punctuation is removed before words are separated, as in the official script: "U.S." is the
    // word "us", and "well-known" is one word.
    if (is_punctuation(c)) continue;
    if (is_space(c))
      end_word(word, words);
    else
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  end_word(word, words);
  return words;
}

AnswerScore score_answer(std::string_view predicted, std::span<const std::string> accepted) {
  const std::vector<std::string> words = normalised_words(predicted);
  AnswerScore best;
  for (const std::string& answer : accepted) {
    const std::vector<std::string> other = normalised_words(answer);
    best.exact = std::max(best.exact, words == other ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(words, other));
  }
  return best;
}

PredictedSpan best_span(std::span<const float> start, std::span<const float> end_logits,
                        std::uint32_t first, std::uint32_t end) {
  ES_CHECK(first < end && end <= start.size() && end <= end_logits.size());
  PredictedSpan best{first, first, start[first] + end_logits[first]};
  for (std::uint32_t i = first; i < end; ++i) {
    const std::uint32_t limit = std::min(end, i + kAnswerTokensMax);
    for (std::uint32_t j = i; j < limit; ++j) {
      const float score = start[i] + end_logits[j];
      // Strictly greater: of equal scores the first span stays. The second condition replaces a
      // NaN, with which every comparison is false.
      if (score > best.score || (best.score != best.score && score == score)) best = {i, j, score};
    }
  }
  return best;
}

}  // namespace es::store
