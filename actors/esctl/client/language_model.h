#pragma once
// A trained language model that says which token follows a text: a built-in one, or one of a model
// file that reads tokens and has an output "logits" [batch,length,vocabulary].
//
// The first tokens of a text are computed by the whole model for one sequence of a fixed length;
// its places behind the text are filled up, which a causal model does not see. The keys and values
// of all layers are kept, and each further token computes its own position only
// (gpu/import/token_program.h). Where this is not possible, the whole model is computed for every
// token. The logits have the same bits in both ways.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/esctl/client/checkpoint_model.h"
#include "gpu/import/token_program.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

using TokenText = std::vector<std::uint32_t>;

class LanguageModel {
 public:
  // `texts` is the number of texts that are continued together. The sequences of a built-in model
  // have the length `tokens`, or that of the job if it is less; those of a model file have its own
  // length. Errors: those of open_checkpoint_model and trained_engine; usage if the model is no
  // language model.
  static Result<LanguageModel> open(const std::string& checkpoint, std::uint64_t tokens,
                                    std::size_t texts, const RunDevice& device);

  // The longest text that the model has seen in its training.
  std::uint64_t context() const { return context_; }
  std::uint32_t vocabulary() const { return vocabulary_; }
  // Why the whole model is computed for every token; empty: keys and values are kept.
  const std::string& whole_because() const { return whole_because_; }

  // The logits of the token that follows each text, of which the last tokens are used if it is
  // longer than a sequence. They are valid until the next call. REQUIRES: there are as many texts
  // as open() was told; none is empty; their tokens are below vocabulary(); in a later call each
  // text is that of the call before with one more token. Error: those of Engine::evaluate; failure
  // if a logit is not finite.
  Result<std::vector<std::span<const float>>> next_logits(std::span<const TokenText> texts);

  // Checks that the logits behind the texts do not depend on what fills up the sequences. Error
  // (usage): they do, so the model is not causal.
  Status check_causal(std::span<const TokenText> texts);

 private:
  // Keys and values of all texts, as the mini-batch of the program for one token.
  struct Cache {
    gpu::TokenProgram program;
    SampleLayout layout;
    std::vector<float> words;  // the mini-batch
    std::vector<bool> filled;  // [text]
  };

  LanguageModel() = default;
  Status find_fields(const CheckpointModel& source);
  Result<gpu::TokenProgram> derive(const CheckpointModel& source) const;
  Status open_engine(CheckpointModel source, const RunDevice& device);
  Status add_cache(gpu::TokenProgram program);
  std::span<float> cached(std::size_t number, std::size_t text);
  Result<gpu::EvalBatch> whole_model(std::span<const std::uint32_t> text, std::uint32_t filler);
  Result<std::vector<float>> logits_behind(std::span<const std::uint32_t> text,
                                           std::uint32_t filler);
  std::span<const float> behind(const gpu::EvalBatch& batch, std::size_t tokens) const;
  Status begin(std::size_t text, std::span<const std::uint32_t> tokens);
  Status step(std::span<const TokenText> texts);

  SampleLayout layout_;
  std::unique_ptr<gpu::Engine> engine_;
  std::optional<Cache> cache_;
  std::string whole_because_;
  std::size_t ids_ = 0;     // the field with the tokens
  std::size_t output_ = 0;  // the output with the logits
  std::size_t texts_ = 1;
  std::uint64_t length_ = 0, context_ = 0;
  std::uint32_t vocabulary_ = 0;
  std::vector<float> logits_;  // [text][vocabulary]
};

}  // namespace es::actors::esctl
