#include "store/dataset/sample_source.h"

#include <algorithm>

#include "proto/base/check.h"
#include "store/dataset/images/cifar_reader.h"
#include "store/dataset/images/idx_reader.h"
#include "store/dataset/layouts.h"
#include "store/dataset/sources.h"
#include "store/field_error.h"

namespace es::store {
namespace {

using Opened = Result<std::shared_ptr<const SampleSource>>;

Opened open_memory(Result<ImageDataset> dataset, const JobSpec& spec) {
  if (!dataset) return dataset.error();
  return memory_source(*std::move(dataset), spec.data, spec.seed);
}

Opened open_synthetic(const JobSpec& spec) {
  switch (task_of(spec.model)) {
    case Task::kClassification:
      return synthetic_image_source(spec.data, spec.model.classes, spec.seed);
    case Task::kRecommendation:
      return synthetic_ratings_source(spec.data);
    case Task::kQuestionAnswering:
      return synthetic_question_source(spec.data);
    case Task::kDetection:
      return synthetic_box_source(spec);
    case Task::kLanguage:
      return synthetic_token_source(spec.data);
    case Task::kCaptured:
      break;  // open_captured() asks for the task of a built-in model
  }
  return failure("no such task");
}

Opened open_idx(const JobSpec& spec) {
  return open_memory(read_idx_dataset(spec.data.path, spec.model.classes), spec);
}
Opened open_cifar(const JobSpec& spec) {
  return open_memory(read_cifar_dataset(spec.data.path, spec.model.classes), spec);
}

// Token files ask for the inputs of a model. Those of a built-in language model are the fields of
// its task.
Opened open_tokens(const JobSpec& spec) {
  CapturedInputs inputs;
  const SampleLayout layout = spec.data.document_end < 0
                                  ? token_layout(spec.data.length, spec.data.vocabulary)
                                  : document_layout(spec.data.length, spec.data.vocabulary);
  for (const SampleField& field : layout.fields)
    inputs.inputs.push_back({.field = field, .type = ValueType::kI32, .shape = {field.height}});
  return tokens_source(spec, inputs);
}

Result<DataFacts> memory_facts(const Result<ImageCounts>& counts, const JobSpec& spec) {
  if (!counts) return counts.error();
  const auto writer = PixelWriter::create(counts->shape, spec.data, spec.seed);
  if (!writer) return writer.error();
  return DataFacts{.layout = image_layout(counts->shape, spec.model.classes),
                   .train_count = counts->train,
                   .eval_count = counts->eval};
}
Result<DataFacts> idx_facts(const JobSpec& spec) {
  return memory_facts(count_idx_dataset(spec.data.path, spec.model.classes), spec);
}
Result<DataFacts> cifar_facts(const JobSpec& spec) {
  return memory_facts(count_cifar_dataset(spec.data.path), spec);
}

Result<DataFacts> facts_of(const Opened& source) {
  if (!source) return source.error();
  const SampleSource& s = **source;
  return DataFacts{s.layout(), s.train_count(), s.eval_count(), s.eval_group(), s.path_digest()};
}

// For kinds whose open function neither computes nor decodes a sample.
template <Opened (*open)(const JobSpec&)>
Result<DataFacts> opened_facts(const JobSpec& spec) {
  return facts_of(open(spec));
}

struct Kind {
  const char* name;
  Opened (*open)(const JobSpec&);
  Result<DataFacts> (*facts)(const JobSpec&);
};
constexpr Kind kKinds[] = {{"idx", open_idx, idx_facts},
                           {"cifar10", open_cifar, cifar_facts},
                           {"image_folder", image_folder_source, opened_facts<image_folder_source>},
                           {"webdataset", webdataset_source, opened_facts<webdataset_source>},
                           {"ratings", ratings_source, opened_facts<ratings_source>},
                           {"squad", squad_source, opened_facts<squad_source>},
                           {"voc", voc_source, voc_facts},
                           {"tokens", open_tokens, opened_facts<open_tokens>},
                           {"synthetic", open_synthetic, opened_facts<open_synthetic>}};

Result<const Kind*> kind_of(const JobSpec& spec) {
  std::string allowed;
  for (const Kind& kind : kKinds) {
    if (spec.data.kind == kind.name) return &kind;
    allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name);
  }
  return usage_error("data.kind = \"" + spec.data.kind + "\": allowed is " + allowed);
}

// esctl encodes texts before it submits a job.
Opened unencoded_texts() {
  return bad_field("job", "data.kind", "\"texts\"",
                   "\"tokens\" for a head; submit the job with esctl, which encodes texts");
}

// The data of a model file: arrays, token files, a Python dataset, or those of a built-in model
// with the same fields.
Opened open_captured(const JobSpec& spec, const CapturedInputs& inputs) {
  if (spec.data.kind == "arrays") return arrays_source(spec, inputs);
  if (spec.data.kind == "tokens") return tokens_source(spec, inputs);
  if (spec.data.kind == "texts") return unencoded_texts();
  if (spec.data.kind == "python") return python_source(spec, inputs);
  const auto model = model_of_task(inputs, spec.data.kind);
  if (!model) return model.error();
  JobSpec built_in = spec;
  built_in.model = *model;
  auto source = open_samples(built_in);
  if (!source) return source.error();
  return captured_samples(*std::move(source), inputs, spec.data.kind);
}

std::string place_of(const DataSpec& data) {
  return data.path.empty() ? data.kind + " data" : data.path;
}

}  // namespace

const SampleSource& SampleSource::of_bucket(std::uint32_t bucket) const {
  ES_CHECK(bucket == 0);
  return *this;
}
std::int64_t SampleSource::words_max() const {
  std::int64_t most = 0;
  for (std::uint32_t b = 0; b < buckets(); ++b)
    most = std::max(most, of_bucket(b).layout().words());
  return most;
}
std::int32_t SampleSource::true_label(std::uint64_t) const {
  ES_CHECK_MSG(false, "only classification has labels");
}
std::vector<TrueBox> SampleSource::true_boxes(std::uint64_t) const {
  ES_CHECK_MSG(false, "only detection has boxes");
}
QuestionWindow SampleSource::question_window(std::uint64_t) const {
  ES_CHECK_MSG(false, "only question answering has questions");
}
std::string SampleSource::answer_text(std::uint64_t, std::uint32_t, std::uint32_t) const {
  ES_CHECK_MSG(false, "only question answering has answers");
}

Opened open_samples(const JobSpec& spec, const CapturedInputs* inputs) {
  if (inputs != nullptr) return open_captured(spec, *inputs);
  if (spec.data.kind == "texts") return unencoded_texts();
  const Result<const Kind*> kind = kind_of(spec);
  if (!kind) return kind.error();
  return (*kind)->open(spec);
}

Result<DataFacts> data_facts(const JobSpec& spec, const CapturedInputs* inputs) {
  // Whether the fields fit the inputs of the model is known only when the data are open.
  if (inputs != nullptr) return facts_of(open_captured(spec, *inputs));
  if (spec.data.kind == "texts") return unencoded_texts().error();
  const Result<const Kind*> kind = kind_of(spec);
  if (!kind) return kind.error();
  return (*kind)->facts(spec);
}

std::string training_sample_name(const DataSpec& data, std::uint64_t index) {
  return "training sample " + std::to_string(index) + " of " + place_of(data);
}
std::string evaluation_sample_name(const DataSpec& data, std::uint64_t index) {
  return "evaluation sample " + std::to_string(index) + " of " + place_of(data);
}

Status fill_batch(const SampleSource& source, const EpochSampler& sampler, DataCursor at,
                  VirtualRank rank, std::span<float> words) {
  ES_CHECK(sampler.samples() == source.train_count());
  std::vector<std::uint64_t> samples(sampler.batch_size());
  sampler.batch(at, rank, samples);
  const SampleSource& padded = source.of_bucket(sampler.bucket(at, rank));
  const auto count = samples.size() * static_cast<std::size_t>(padded.layout().words());
  return padded.fill_train(at.epoch, samples, words.first(count));
}

}  // namespace es::store
