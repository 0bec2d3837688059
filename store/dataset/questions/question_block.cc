#include "store/dataset/questions/question_block.h"

#include "store/dataset/layouts.h"

namespace es::store {

void write_question(const SampleBlock& block, std::uint64_t position, const SpecialTokens& special,
                    std::span<const std::int32_t> question, std::span<const std::int32_t> context,
                    ContextSpan answer) {
  const std::size_t tokens = block.field(question_field::kIds, position).size();
  ES_CHECK(question.size() + context.size() + kSpecialCount <= tokens);
  std::size_t at = 0;
  const auto put = [&](std::int32_t id, std::int32_t type) {
    block.set_i32(question_field::kIds, position, at, id);
    block.set_i32(question_field::kTypes, position, at, type);
    ++at;
  };
  put(special.cls, 0);
  for (const std::int32_t id : question) put(id, 0);
  put(special.sep, 0);
  for (const std::int32_t id : context) put(id, 1);
  put(special.sep, 1);
  block.set_i32(question_field::kLength, position, 0, static_cast<std::int32_t>(at));
  while (at < tokens) put(special.pad, 0);
  const bool inside = answer.first <= answer.last;
  const std::uint32_t offset = context_offset(question.size());
  block.set_i32(question_field::kSpan, position, 0,
                inside ? static_cast<std::int32_t>(answer.first + offset) : 0);
  block.set_i32(question_field::kSpan, position, 1,
                inside ? static_cast<std::int32_t>(answer.last + offset) : 0);
}

}  // namespace es::store
