#pragma once
// Texts that a language model continues.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/esctl/client/language_model.h"
#include "actors/esctl/client/token_choice.h"
#include "proto/base/result.h"
#include "store/tokenizer/tokenizer.h"

namespace es::actors::esctl {

struct GeneratedText {
  std::vector<std::uint32_t> tokens;
  std::string text;
};

// Appends `count` tokens to each prompt. What a prompt gets does not depend on the others. `emit`
// receives the number of a prompt and its text as it grows, in whole characters. Tokens that the
// tokenizer does not have are never chosen. REQUIRES: the model was opened for this number of
// texts, no prompt is empty, and tokenizer.size() <= model.vocabulary(). Errors: those of
// next_logits and Tokenizer::decode.
Result<std::vector<GeneratedText>> generate(
    LanguageModel& model, const store::Tokenizer& tokenizer, std::span<const TokenText> prompts,
    std::uint64_t count, const TokenChoice& choice,
    const std::function<void(std::size_t, std::string_view)>& emit);

}  // namespace es::actors::esctl
