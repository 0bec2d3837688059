#include "actors/esctl/client/generation.h"

#include <algorithm>
#include <utility>

namespace es::actors::esctl {
namespace {

// The text without a character at its end of which only some bytes are known.
std::string_view whole_characters(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

// A text that grows token by token.
class GrowingText {
 public:
  using Emit = std::function<void(std::string_view)>;

  static Result<GrowingText> begin(const store::Tokenizer& tokenizer, const TokenText& prompt) {
    // A decoder may treat the first token of a text in another way, so the prompt is decoded too.
    auto decoded = tokenizer.decode(prompt, false);
    if (!decoded) return decoded.error();
    GrowingText text;
    text.prompt_tokens_ = prompt.size();
    text.shown_ = text.prompt_bytes_ = decoded->size();
    text.all_ = *std::move(decoded);
    return text;
  }

  // `ids` is the whole text, with the prompt.
  Status grow(const store::Tokenizer& tokenizer, const TokenText& ids, const Emit& emit) {
    auto decoded = tokenizer.decode(ids, false);
    if (!decoded) return decoded.error();
    all_ = *std::move(decoded);
    show(whole_characters(all_), emit);
    return {};
  }

  GeneratedText end(const TokenText& ids, const Emit& emit) {
    show(all_, emit);
    return {{ids.begin() + static_cast<std::ptrdiff_t>(prompt_tokens_), ids.end()},
            all_.substr(std::min(prompt_bytes_, all_.size()))};
  }

 private:
  void show(std::string_view text, const Emit& emit) {
    if (text.size() <= shown_) return;
    emit(text.substr(shown_));
    shown_ = text.size();
  }

  std::size_t prompt_tokens_ = 0, prompt_bytes_ = 0, shown_ = 0;
  std::string all_;
};

}  // namespace

Result<std::vector<GeneratedText>> generate(
    LanguageModel& model, const store::Tokenizer& tokenizer, std::span<const TokenText> prompts,
    std::uint64_t count, const TokenChoice& choice,
    const std::function<void(std::size_t, std::string_view)>& emit) {
  std::vector<TokenText> texts(prompts.begin(), prompts.end());
  std::vector<GrowingText> growing;
  for (const TokenText& prompt : prompts) {
    auto text = GrowingText::begin(tokenizer, prompt);
    if (!text) return text.error();
    growing.push_back(*std::move(text));
  }
  const auto emit_of = [&](std::size_t t) {
    return [&emit, t](std::string_view text) { emit(t, text); };
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto logits = model.next_logits(texts);
    if (!logits) return logits.error();
    for (std::size_t t = 0; t < texts.size(); ++t) {
      texts[t].push_back(choose_token((*logits)[t].first(tokenizer.size()), choice, i));
      ES_RETURN_IF_ERROR(growing[t].grow(tokenizer, texts[t], emit_of(t)));
    }
  }
  std::vector<GeneratedText> made;
  for (std::size_t t = 0; t < texts.size(); ++t)
    made.push_back(growing[t].end(texts[t], emit_of(t)));
  return made;
}

}  // namespace es::actors::esctl
