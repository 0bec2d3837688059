#pragma once
// Text from a trained language model: a built-in one, or one of a model file that reads tokens and
// has an output "logits" [batch,length,vocabulary].
//
// For every token the whole model is computed for one sequence of a fixed length. The places behind
// the text are filled up, which a causal model does not see.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/esctl/client/checkpoint_model.h"
#include "actors/esctl/client/token_choice.h"
#include "proto/base/result.h"
#include "store/tokenizer/tokenizer.h"

namespace es::actors::esctl {

// A language model with the parameters of a checkpoint.
class LanguageModel {
 public:
  // The sequences of a built-in model have the length `tokens`, or that of the job if it is less;
  // those of a model file have its own length. Errors: those of open_checkpoint_model and
  // trained_engine; usage if the model is no language model.
  static Result<LanguageModel> open(const std::string& checkpoint, std::uint64_t tokens,
                                    const RunDevice& device);

  // The longest text that the model has seen in its training.
  std::uint64_t context() const { return context_; }
  std::uint32_t vocabulary() const { return vocabulary_; }

  // The logits of the token that follows `text`, of which the last tokens are used if it is longer
  // than a sequence. They are valid until the next call. REQUIRES: the text is not empty, and its
  // tokens are below vocabulary(). Error: those of Engine::evaluate; failure if a logit is not
  // finite.
  Result<std::span<const float>> next_logits(std::span<const std::uint32_t> text);

  // Checks that the logits behind `text` do not depend on what fills up the sequence. Error
  // (usage): they do, so the model is not causal.
  Status check_causal(std::span<const std::uint32_t> text);

 private:
  LanguageModel() = default;
  Status find_fields(const CheckpointModel& source);
  Result<std::span<const float>> logits_behind(std::span<const std::uint32_t> text,
                                               std::uint32_t filler);

  SampleLayout layout_;
  std::unique_ptr<gpu::Engine> engine_;
  gpu::EvalBatch batch_;
  std::size_t ids_ = 0;     // the field with the tokens
  std::size_t output_ = 0;  // the output with the logits
  std::uint64_t length_ = 0, context_ = 0;
  std::uint32_t vocabulary_ = 0;
};

struct GeneratedText {
  std::vector<std::uint32_t> tokens;
  std::string text;
};

// Appends `count` tokens to the prompt. `emit` receives the text as it grows, in whole characters.
// Tokens that the tokenizer does not have are never chosen. REQUIRES: the prompt is not empty, and
// tokenizer.size() <= model.vocabulary(). Errors: those of next_logits and Tokenizer::decode.
Result<GeneratedText> generate(LanguageModel& model, const store::Tokenizer& tokenizer,
                               std::span<const std::uint32_t> prompt, std::uint64_t count,
                               const TokenChoice& choice,
                               const std::function<void(std::string_view)>& emit);

}  // namespace es::actors::esctl
