#include "store/dataset/sample_source.h"

#include "proto/base/check.h"
#include "store/dataset/boxes/box_source.h"
#include "store/dataset/images/cifar_reader.h"
#include "store/dataset/images/idx_reader.h"
#include "store/dataset/images/image_folder.h"
#include "store/dataset/images/image_source.h"
#include "store/dataset/questions/squad_source.h"
#include "store/dataset/questions/synthetic_questions.h"
#include "store/dataset/ratings/ratings_source.h"

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
  }
  return failure("no such task");
}

Opened open_idx(const JobSpec& spec) {
  return open_memory(read_idx_dataset(spec.data.path, spec.model.classes), spec);
}
Opened open_cifar(const JobSpec& spec) {
  return open_memory(read_cifar_dataset(spec.data.path, spec.model.classes), spec);
}

struct Kind {
  const char* name;
  Opened (*open)(const JobSpec&);
};
constexpr Kind kKinds[] = {{"idx", open_idx},
                           {"cifar10", open_cifar},
                           {"image_folder", image_folder_source},
                           {"ratings", ratings_source},
                           {"squad", squad_source},
                           {"voc", voc_source},
                           {"synthetic", open_synthetic}};

}  // namespace

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

Opened open_samples(const JobSpec& spec) {
  std::string allowed;
  for (const Kind& kind : kKinds) {
    if (spec.data.kind == kind.name) return kind.open(spec);
    allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name);
  }
  return usage_error("data.kind = \"" + spec.data.kind + "\": allowed is " + allowed);
}

Result<DataFacts> data_facts(const JobSpec& spec) {
  const Opened source = open_samples(spec);
  if (!source) return source.error();
  const SampleSource& s = **source;
  return DataFacts{s.layout(), s.train_count(), s.eval_count(), s.eval_group()};
}

Status fill_batch(const SampleSource& source, const EpochSampler& sampler, DataCursor at,
                  VirtualRank rank, std::span<float> words) {
  ES_CHECK(sampler.samples() == source.train_count());
  std::vector<std::uint64_t> samples(sampler.batch_size());
  sampler.batch(at, rank, samples);
  return source.fill_train(at.epoch, samples, words);
}

}  // namespace es::store
