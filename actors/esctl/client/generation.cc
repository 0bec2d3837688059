#include "actors/esctl/client/generation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "actors/esctl/client/prediction.h"

namespace es::actors::esctl {
namespace {

// A built-in model needs no data here, because its fields follow from the job alone.
void for_one_sequence(JobSpec& spec, std::uint64_t tokens) {
  spec.batch_size = 1;
  if (task_of(spec.model) != Task::kLanguage) return;
  spec.data.kind = "synthetic";
  spec.data.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(spec.data.length, tokens));
}

Error not_a_language_model(const CheckpointModel& source, const std::string& why) {
  return usage_error(source.directory + ": the model \"" + model_text(source.spec.model) + "\" " +
                     why +
                     ": allowed is a model of tokens i32 [T] with an output \"logits\" "
                     "[batch,T,vocabulary]");
}

// The text without a character at its end of which only some bytes are known.
std::string_view whole_characters(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

}  // namespace

Result<LanguageModel> LanguageModel::open(const std::string& checkpoint, std::uint64_t tokens,
                                          const RunDevice& device) {
  LanguageModel model;
  auto source = open_checkpoint_model(checkpoint, [&](JobSpec& spec) {
    model.context_ = spec.data.length;
    for_one_sequence(spec, tokens);
  });
  if (!source) return source.error();
  ES_RETURN_IF_ERROR(model.find_fields(*source));
  if (source->model.program() != nullptr) model.context_ = model.length_;
  auto engine = trained_engine(*source, device);
  if (!engine) return engine.error();
  model.engine_ = *std::move(engine);
  return model;
}

Status LanguageModel::find_fields(const CheckpointModel& source) {
  layout_ = source.graph.layout;
  const std::vector<bool> needed = fields_of_outputs(source.graph);
  const auto first = std::ranges::find(needed, true);
  ids_ = static_cast<std::size_t>(first - needed.begin());
  if (std::ranges::count(needed, true) != 1 || layout_.fields[ids_].type != FieldType::kI32 ||
      layout_.fields[ids_].words() != layout_.fields[ids_].height || layout_.fields[ids_].low != 0)
    return not_a_language_model(source, "has other inputs");
  length_ = static_cast<std::uint64_t>(layout_.fields[ids_].height);
  vocabulary_ = static_cast<std::uint32_t>(layout_.fields[ids_].high) + 1;
  if (task_of(source.spec.model) == Task::kLanguage) return {};  // it has one output
  const std::vector<std::uint64_t> expected{1, length_, vocabulary_};
  const std::size_t outputs = source.graph.outputs.size();
  while (output_ < outputs && output_name(source, output_) != "logits") ++output_;
  if (output_ < outputs && output_extents(source, output_) == expected) return {};
  return not_a_language_model(source, "has no such output");
}

Result<std::span<const float>> LanguageModel::logits_behind(std::span<const std::uint32_t> text,
                                                            std::uint32_t filler) {
  if (text.size() > length_) text = text.last(length_);
  std::vector<float> words(static_cast<std::size_t>(layout_.words()));
  for (std::size_t f = 0; f < layout_.fields.size(); ++f) {
    const SampleField& field = layout_.fields[f];
    const auto begin = words.begin() + layout_.offset(f);
    std::fill(begin, begin + field.words(), std::bit_cast<float>(field.low));
  }
  const auto ids = words.begin() + layout_.offset(ids_);
  for (std::size_t i = 0; i < length_; ++i)
    ids[static_cast<std::ptrdiff_t>(i)] = std::bit_cast<float>(i < text.size() ? text[i] : filler);
  auto batch = engine_->evaluate({words.data()}, 1);
  if (!batch) return batch.error();
  batch_ = *std::move(batch);
  const std::span<const float> all = batch_.outputs[output_];
  const std::span<const float> logits = all.subspan((text.size() - 1) * vocabulary_, vocabulary_);
  if (!std::ranges::all_of(logits, [](float v) { return std::isfinite(v); }))
    return failure("a logit of the model is NaN or infinite");
  return logits;
}

Result<std::span<const float>> LanguageModel::next_logits(std::span<const std::uint32_t> text) {
  return logits_behind(text, 0);
}

Status LanguageModel::check_causal(std::span<const std::uint32_t> text) {
  if (text.size() >= length_) return {};  // nothing is filled up
  const auto first = logits_behind(text, 0);
  if (!first) return first.error();
  const std::vector<float> expected(first->begin(), first->end());
  const auto second = logits_behind(text, vocabulary_ - 1);
  if (!second) return second.error();
  const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  if (std::ranges::equal(expected, *second, {}, bits, bits)) return {};
  return usage_error(
      "the logits of the model depend on tokens behind the text: allowed is a causal model");
}

Result<GeneratedText> generate(LanguageModel& model, const store::Tokenizer& tokenizer,
                               std::span<const std::uint32_t> prompt, std::uint64_t count,
                               const TokenChoice& choice,
                               const std::function<void(std::string_view)>& emit) {
  std::vector<std::uint32_t> ids(prompt.begin(), prompt.end());
  const auto before = tokenizer.decode(ids, false);
  if (!before) return before.error();
  // A decoder may treat the first token of a text in another way, so the prompt is decoded too.
  std::size_t shown = before->size();
  std::string all = *before;
  const auto show = [&](std::string_view text) {
    if (text.size() <= shown) return;
    emit(text.substr(shown));
    shown = text.size();
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto logits = model.next_logits(ids);
    if (!logits) return logits.error();
    ids.push_back(choose_token(logits->first(tokenizer.size()), choice, i));
    auto decoded = tokenizer.decode(ids, false);
    if (!decoded) return decoded.error();
    all = *std::move(decoded);
    show(whole_characters(all));
  }
  show(all);
  return GeneratedText{{ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()), ids.end()},
                       all.substr(std::min(before->size(), all.size()))};
}

}  // namespace es::actors::esctl
