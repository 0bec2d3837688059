#pragma once
// The sample that a question and a part of its context make:
//   ids     [CLS] question [SEP] context [SEP] and padding
//   types   0 up to the first [SEP], 1 up to the last, 0 for padding
//   length  tokens before the padding
//   span    first and last token of the answer; 0, 0 when it does not lie in this part
#include <cstdint>
#include <span>

#include "store/dataset/record_source.h"

namespace es::store {

struct SpecialTokens {
  std::int32_t pad = 0, cls = 0, sep = 0;
};

// Answer as tokens [first, last] of `context`; first > last: not in this part.
struct ContextSpan {
  std::uint32_t first = 1, last = 0;
};

// Tokens before the context, and all that are not the question's or the context's.
inline std::uint32_t context_offset(std::size_t question) {
  return static_cast<std::uint32_t>(question) + 2;
}
inline constexpr std::uint32_t kSpecialCount = 3;

// REQUIRES: question.size() + context.size() + kSpecialCount <= tokens of the layout.
void write_question(const SampleBlock& block, std::uint64_t position, const SpecialTokens& special,
                    std::span<const std::int32_t> question, std::span<const std::int32_t> context,
                    ContextSpan answer);

}  // namespace es::store
