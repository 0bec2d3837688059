// esctl generate: text from a trained language model, without a head.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "actors/esctl/client/language_model.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/token_choice.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/json_text.h"
#include "store/tokenizer/tokenizer.h"

namespace es::actors::esctl {
namespace {

constexpr std::uint64_t kUsualTokens = 100;
constexpr std::uint64_t kTokensMax = 1'000'000;
// Models often have more rows than the tokenizer has tokens, up to a multiple of this number.
constexpr std::uint32_t kPaddedTo = 128;

struct GenerateOptions {
  std::string checkpoint;
  std::vector<std::string> prompts;
  std::string tokenizer;
  std::uint64_t tokens = kUsualTokens;
  std::uint64_t top_k = 0;
  std::optional<double> temperature;
  std::optional<std::uint64_t> seed;
  RunDevice device;
  bool json = false;
};

Result<std::vector<TokenText>> encode_prompts(const GenerateOptions& options,
                                              const store::Tokenizer& tokenizer) {
  store::WordCache cache;
  std::vector<TokenText> all;
  for (const std::string& prompt : options.prompts) {
    TokenText ids;
    const Status encoded = tokenizer.encode(prompt, false, cache, ids);
    if (!encoded.ok()) return Error{encoded.error().kind, "--prompt: " + encoded.error().message};
    if (ids.empty()) return usage_error("--prompt = \"\": allowed is a text of at least one token");
    all.push_back(std::move(ids));
  }
  return all;
}

std::size_t longest(const std::vector<TokenText>& texts) {
  std::size_t tokens = 0;
  for (const TokenText& text : texts) tokens = std::max(tokens, text.size());
  return tokens;
}

Status check_fit(const GenerateOptions& options, const LanguageModel& model,
                 const store::Tokenizer& tokenizer, std::size_t prompt_tokens) {
  const std::uint32_t rows = model.vocabulary(), size = tokenizer.size();
  if (size > rows || rows - size >= kPaddedTo)
    return usage_error(options.tokenizer + ": number of tokens = " + std::to_string(size) +
                       ": allowed is the vocabulary of the model, " + std::to_string(rows) +
                       ", or up to " + std::to_string(kPaddedTo - 1) + " less");
  if (prompt_tokens > model.context())
    return usage_error("--prompt has " + std::to_string(prompt_tokens) +
                       " tokens: allowed are at most " + std::to_string(model.context()) +
                       ", the context of the model");
  return {};
}

TokenChoice choice_of(const GenerateOptions& options) {
  TokenChoice choice{.temperature = options.temperature, .top_k = options.top_k};
  const bool draws = options.temperature || options.seed || options.top_k != 0;
  if (draws && !choice.temperature) choice.temperature = 1.0;
  choice.seed = options.seed.value_or(choice.seed);
  return choice;
}

struct GeneratedText {
  std::vector<std::uint32_t> tokens;
  std::string text;
};

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

// Appends `count` tokens to each prompt. What a prompt gets does not depend on the others. `emit`
// receives the number of a prompt and its text as it grows, in whole characters. Tokens that the
// tokenizer does not have are never chosen. REQUIRES: the model was opened for this number of
// texts, no prompt is empty, and tokenizer.size() <= model.vocabulary(). Errors: those of
// next_logits and Tokenizer::decode.
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

nlohmann::ordered_json json_of(const TokenText& prompt, const GeneratedText& text) {
  return {{"prompt_tokens", prompt.size()}, {"tokens", text.tokens}, {"text", text.text}};
}

nlohmann::ordered_json json_of(const LanguageModel& model, const std::vector<TokenText>& prompts,
                               const std::vector<GeneratedText>& made) {
  nlohmann::ordered_json json{{"context", model.context()},
                              {"keeps_keys", model.whole_because().empty()}};
  if (made.size() == 1) {
    json.update(json_of(prompts[0], made[0]));
    return json;
  }
  json["texts"] = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < made.size(); ++t)
    json["texts"].push_back(json_of(prompts[t], made[t]));
  return json;
}

Status generate_command(const GenerateOptions& options, Console& console) {
  const auto tokenizer = store::Tokenizer::read(options.tokenizer);
  if (!tokenizer) return tokenizer.error();
  const auto prompts = encode_prompts(options, *tokenizer);
  if (!prompts) return prompts.error();
  auto model = LanguageModel::open(options.checkpoint, longest(*prompts) + options.tokens,
                                   prompts->size(), options.device);
  if (!model) return model.error();
  ES_RETURN_IF_ERROR(check_fit(options, *model, *tokenizer, longest(*prompts)));
  ES_RETURN_IF_ERROR(model->check_causal(*prompts));
  if (!model->whole_because().empty())
    console.err << "esctl: the whole model is computed for every token: " << model->whole_because()
                << std::endl;
  const auto emit = [&](std::size_t, std::string_view text) {
    // Every token is shown as soon as it is known. Several texts would be mixed up.
    if (!options.json && prompts->size() == 1) console.out << text << std::flush;
  };
  const auto made =
      generate(*model, *tokenizer, *prompts, options.tokens, choice_of(options), emit);
  if (!made) return made.error();
  if (options.json) {
    console.out << json_text(json_of(*model, *prompts, *made)) << "\n";
  } else if (made->size() == 1) {
    console.out << "\n";
  } else {
    for (std::size_t t = 0; t < made->size(); ++t)
      console.out << (t == 0 ? "" : "\n") << options.prompts[t] << (*made)[t].text << "\n";
  }
  return {};
}

}  // namespace

void add_generate_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate", "Continue a text with the language model of a checkpoint, on this machine");
  command->add_option("checkpoint", options->checkpoint, "The checkpoint")
      ->required()
      ->type_name("CHECKPOINT");
  command
      ->add_option("--prompt", options->prompts,
                   "The text to continue; several ones are continued together")
      ->required()
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "The tokenizer of Hugging Face with which the training data were made")
      ->required()
      ->type_name("tokenizer.json");
  command->add_option("--tokens", options->tokens, "Number of tokens")
      ->check(CLI::Range(std::uint64_t{1}, kTokensMax))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--top-k", options->top_k,
                   "Draw each token from the K most probable ones; 0 for all")
      ->type_name("K");
  command
      ->add_option("--temperature", options->temperature,
                   "Draw tokens with probabilities exp(logit / T)")
      ->check(CLI::Range(1e-3, 1e3))
      ->type_name("T");
  command->add_option("--seed", options->seed, "Seed of the drawn tokens; 1 by default")
      ->type_name("S");
  add_device_options(*command, options->device);
  add_json_option(*command, options->json);
  command->footer(
      "Without --top-k, --temperature and --seed every token is the most probable one. With one of "
      "them tokens are drawn; the temperature is then 1 by default. The text depends on the "
      "checkpoint and the options only, and not on the device.\n"
      "The keys and values of all layers are kept, so each token computes its own position. Where "
      "that is not possible, or behind the context of the model, the whole model is computed for "
      "every token.\n"
      "Example:\n"
      "  esctl generate checkpoints/gpt2-1/step-2000 --prompt \"Once upon\" "
      "--tokenizer tokenizer.json --top-k 40");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(generate_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
