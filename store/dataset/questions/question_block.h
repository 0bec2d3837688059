#pragma once
// The sample of a question and a part of its context:
//   ids     [CLS] question [SEP] context [SEP] and padding
//   types   0 up to the first [SEP], 1 up to the last one, 0 for padding
//   length  number of tokens before the padding
//   span    first and last token of the answer; 0, 0 if it is not in this part
#include <cstdint>
#include <span>

#include "store/dataset/record_source.h"

namespace es::store {

struct SpecialTokens {
  std::int32_t pad = 0, cls = 0, sep = 0;
};

// The answer as tokens [first, last] of `context`; first > last if it is not in this part.
struct ContextSpan {
  std::uint32_t first = 1, last = 0;
};

// Number of tokens before the context, and below it the number of special tokens of a sample.
inline std::uint32_t context_offset(std::size_t question) {
  return static_cast<std::uint32_t>(question) + 2;
}
inline constexpr std::uint32_t kSpecialCount = 3;

// REQUIRES: question.size() + context.size() + kSpecialCount <= tokens of the layout.
void write_question(const SampleBlock& block, std::uint64_t position, const SpecialTokens& special,
                    std::span<const std::int32_t> question, std::span<const std::int32_t> context,
                    ContextSpan answer);

}  // namespace es::store
