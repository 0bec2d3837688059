#include "actors/esctl/client/language_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "actors/esctl/client/prediction.h"

namespace es::actors::esctl {
namespace {

// The fields of the program for one token (gpu/import/token_program.h).
constexpr std::size_t kTokenField = 0, kPlaceField = 1, kFirstCacheField = 2;

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

Status check_finite(std::span<const float> logits) {
  if (std::ranges::all_of(logits, [](float v) { return std::isfinite(v); })) return {};
  return failure("a logit of the model is NaN or infinite");
}

}  // namespace

Result<LanguageModel> LanguageModel::open(const std::string& checkpoint, std::uint64_t tokens,
                                          std::size_t texts, const RunDevice& device) {
  LanguageModel model;
  auto source = open_checkpoint_model(checkpoint, [&](JobSpec& spec) {
    model.context_ = spec.data.length;
    for_one_sequence(spec, tokens);
  });
  if (!source) return source.error();
  ES_RETURN_IF_ERROR(model.find_fields(*source));
  if (source->model.program() != nullptr) model.context_ = model.length_;
  model.texts_ = texts;
  model.logits_.resize(texts * model.vocabulary_);
  ES_RETURN_IF_ERROR(model.open_engine(*std::move(source), device));
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

// --- The engine.

Result<gpu::TokenProgram> LanguageModel::derive(const CheckpointModel& source) const {
  // An attention that is one operator in the whole model is several ones here, whose results would
  // be rounded.
  if (source.spec.precision != "fp32")
    return usage_error("precision = \"" + source.spec.precision + "\"");
  const auto program = source.model.whole_program(source.spec, layout_);
  if (!program) return program.error();
  return gpu::token_program(*program, ids_, output_);
}

Status LanguageModel::open_engine(CheckpointModel source, const RunDevice& device) {
  auto program = derive(source);
  if (program) {
    auto graph = JobModel::graph_of(program->whole, 1);
    if (!graph) return graph.error();
    source.graph = *std::move(graph);
  } else {
    whole_because_ = program.error().message;
  }
  auto engine = trained_engine(source, device);
  if (!engine) return engine.error();
  engine_ = *std::move(engine);
  if (!program) return {};
  const Status added = add_cache(*std::move(program));
  if (added.ok() || added.error().kind != ErrorKind::kUsage) return added;
  whole_because_ = added.error().message;
  cache_.reset();
  return {};
}

Status LanguageModel::add_cache(gpu::TokenProgram program) {
  auto graph = JobModel::graph_of(program.token, static_cast<std::int64_t>(texts_));
  if (!graph) return graph.error();
  cache_ = Cache{.program = std::move(program),
                 .layout = graph->layout,
                 .words = {},
                 .filled = std::vector<bool>(texts_, false)};
  cache_->words.resize(texts_ * static_cast<std::size_t>(cache_->layout.words()));
  return engine_->add_forward(*std::move(graph));
}

// The keys or values of a text [heads][length][width].
std::span<float> LanguageModel::cached(std::size_t number, std::size_t text) {
  const std::size_t field = kFirstCacheField + number;
  const auto words = static_cast<std::size_t>(cache_->layout.fields[field].words());
  const std::size_t begin = texts_ * static_cast<std::size_t>(cache_->layout.offset(field));
  return std::span(cache_->words).subspan(begin + text * words, words);
}

// --- The whole model, for one text.

Result<gpu::EvalBatch> LanguageModel::whole_model(std::span<const std::uint32_t> text,
                                                  std::uint32_t filler) {
  std::vector<float> words(static_cast<std::size_t>(layout_.words()));
  for (std::size_t f = 0; f < layout_.fields.size(); ++f) {
    const SampleField& field = layout_.fields[f];
    const auto begin = words.begin() + layout_.offset(f);
    std::fill(begin, begin + field.words(), std::bit_cast<float>(field.low));
  }
  const auto ids = words.begin() + layout_.offset(ids_);
  for (std::size_t i = 0; i < length_; ++i)
    ids[static_cast<std::ptrdiff_t>(i)] = std::bit_cast<float>(i < text.size() ? text[i] : filler);
  return engine_->evaluate({words.data()}, 1);
}

std::span<const float> LanguageModel::behind(const gpu::EvalBatch& batch,
                                             std::size_t tokens) const {
  return batch.outputs[output_].subspan((tokens - 1) * vocabulary_, vocabulary_);
}

Result<std::vector<float>> LanguageModel::logits_behind(std::span<const std::uint32_t> text,
                                                        std::uint32_t filler) {
  const auto batch = whole_model(text, filler);
  if (!batch) return batch.error();
  const auto logits = behind(*batch, text.size());
  return std::vector<float>(logits.begin(), logits.end());
}

Status LanguageModel::check_causal(std::span<const TokenText> texts) {
  if (cache_) return {};  // a program for one token is derived from a causal model only
  for (const TokenText& text : texts) {
    if (text.size() >= length_) continue;  // nothing is filled up
    const auto first = logits_behind(text, 0), second = logits_behind(text, vocabulary_ - 1);
    if (!first) return first.error();
    if (!second) return second.error();
    const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
    if (!std::ranges::equal(*first, *second, {}, bits, bits))
      return usage_error(
          "the logits of the model depend on tokens behind the text: allowed is a causal model");
  }
  return {};
}

// --- The logits of all texts.

Result<std::vector<std::span<const float>>> LanguageModel::next_logits(
    std::span<const TokenText> texts) {
  bool continued = false;
  for (std::size_t t = 0; t < texts_; ++t) {
    const bool fits = texts[t].size() <= length_;
    if (cache_ && cache_->filled[t] && fits) {
      continued = true;
      continue;
    }
    // Behind the end of a sequence every token gets another place, so nothing kept is of use.
    const auto last = std::span(texts[t]).last(std::min<std::size_t>(texts[t].size(), length_));
    ES_RETURN_IF_ERROR(begin(t, last));
  }
  if (continued) ES_RETURN_IF_ERROR(step(texts));
  ES_RETURN_IF_ERROR(check_finite(logits_));
  std::vector<std::span<const float>> logits;
  for (std::size_t t = 0; t < texts_; ++t)
    logits.push_back(std::span(logits_).subspan(t * vocabulary_, vocabulary_));
  return logits;
}

Status LanguageModel::begin(std::size_t text, std::span<const std::uint32_t> tokens) {
  const auto batch = whole_model(tokens, 0);
  if (!batch) return batch.error();
  std::ranges::copy(behind(*batch, tokens.size()), logits_.begin() + text * vocabulary_);
  if (!cache_) return {};
  for (std::size_t c = 0; c < cache_->program.caches.size(); ++c)
    std::ranges::copy(batch->outputs[cache_->program.whole_outputs + c], cached(c, text).begin());
  cache_->filled[text] = true;
  return {};
}

// Computes the last token of each text. Texts that are longer than a sequence have their logits
// already; their part of the mini-batch only has to be valid.
Status LanguageModel::step(std::span<const TokenText> texts) {
  const auto fits = [&](std::size_t t) { return texts[t].size() <= length_; };
  const auto field = [&](std::size_t f) {
    return cache_->words.begin() + static_cast<std::ptrdiff_t>(texts_) * cache_->layout.offset(f);
  };
  for (std::size_t t = 0; t < texts_; ++t) {
    const auto at = static_cast<std::ptrdiff_t>(t);
    const auto place = static_cast<std::uint32_t>(fits(t) ? texts[t].size() - 1 : 0);
    field(kTokenField)[at] = std::bit_cast<float>(texts[t].back());
    field(kPlaceField)[at] = std::bit_cast<float>(place);
  }
  const auto outputs = engine_->evaluate_forward({cache_->words.data()});
  if (!outputs) return outputs.error();
  for (std::size_t t = 0; t < texts_; ++t) {
    if (!fits(t)) continue;
    std::ranges::copy(outputs->front().subspan(t * vocabulary_, vocabulary_),
                      logits_.begin() + t * vocabulary_);
    for (std::size_t c = 0; c < cache_->program.caches.size(); ++c) {
      const auto [heads, width] = cache_->program.caches[c];
      const auto columns = static_cast<std::size_t>(width);
      for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
        const auto row =
            (*outputs)[1 + c].subspan((t * static_cast<std::size_t>(heads) + h) * columns, columns);
        const std::size_t place = h * length_ + texts[t].size() - 1;
        std::ranges::copy(row, cached(c, t).subspan(place * columns, columns).begin());
      }
    }
  }
  return {};
}

}  // namespace es::actors::esctl
