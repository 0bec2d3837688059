#pragma once
// SampleSource: the samples that a job trains and is evaluated on, whatever they are read from.
//
// A training sample is a pure function of (job spec, epoch, number of the sample), an evaluation
// sample of (job spec, number): integers, and fp32 or fp64 in a written order without libm, so they
// are the same bits on any machine, whoever fills the batch. Fields: proto/base/sample_layout.h.
//
// Sources are immutable; any number of threads may use one at once.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"
#include "store/dataset/epoch_sampler.h"

namespace es::store {

// What a job has to know about its data before it begins.
struct DataFacts {
  SampleLayout layout;
  std::uint64_t train_count = 0;
  std::uint64_t eval_count = 0;
  // Evaluation samples are compared within groups of this size: what is cut into parts for several
  // workers may be cut only at its multiples. 1 except for ratings.
  std::uint64_t eval_group = 1;
};

// A rectangle that an image really shows.
struct TrueBox {
  std::int32_t label = 0;
  float x = 0, y = 0, w = 0, h = 0;  // centre and sides, in (0, 1] of the image
  bool difficult = false;            // not counted, neither found nor missed (VOC)
};

// One evaluation sample of question answering: a window of a question's context.
struct QuestionWindow {
  std::uint64_t question = 0;  // ascending with the samples; windows of one question are neighbours
  std::uint32_t first = 0;     // tokens of the context: [first, end) of the sample
  std::uint32_t end = 0;
  std::vector<std::string> answers;  // accepted texts; at least one
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual const SampleLayout& layout() const = 0;
  virtual std::uint64_t train_count() const = 0;
  virtual std::uint64_t eval_count() const = 0;
  virtual std::uint64_t eval_group() const = 0;

  // Writes the samples as one block of a batch (proto/base/sample_layout.h).
  // REQUIRES: words.size() == samples.size() * layout().words(); each sample < train_count().
  // Error: a file that is damaged or gone, with its name.
  virtual Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                            std::span<float> words) const = 0;

  // Writes the evaluation samples [begin, begin + count), and the last of them again until the
  // block holds batch_size samples.
  // REQUIRES: 1 <= count <= batch_size, begin + count <= eval_count(),
  // words.size() == batch_size * layout().words(). Error: as fill_train.
  virtual Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                           std::span<float> words) const = 0;

  // What metrics compare predictions with. Each only for its task; index < eval_count().
  virtual std::int32_t true_label(std::uint64_t index) const;          // classification
  virtual std::vector<TrueBox> true_boxes(std::uint64_t index) const;  // detection
  virtual QuestionWindow question_window(std::uint64_t index) const;   // question answering
  // The text of tokens [first, last] of the sample. REQUIRES: both lie in the window's context.
  virtual std::string answer_text(std::uint64_t index, std::uint32_t first,
                                  std::uint32_t last) const;
};

// Opens the data that a job names. REQUIRES: a valid spec (validate).
// Error (usage, not found): names file, record and field, value and what is allowed; also when the
// data do not fit the spec's fields (sizes, classes). Images of folders are looked at only when
// they are used.
Result<std::shared_ptr<const SampleSource>> open_samples(const JobSpec& spec);

// The facts of those data, without holding them: synthetic data from the spec; idx from labels and
// headers, cifar10 from the sizes of files, image_folder and voc from the lists of images. ratings
// and squad are read once: only their whole text tells how many samples it makes.
// Errors: the same but for what is not read; open_samples may still fail for that.
Result<DataFacts> data_facts(const JobSpec& spec);

// How errors name a sample: "training sample 17 of DIR", "evaluation sample 3 of synthetic data".
std::string training_sample_name(const DataSpec& data, std::uint64_t index);
std::string evaluation_sample_name(const DataSpec& data, std::uint64_t index);

// Writes the mini-batch of `rank` at `at`.
// REQUIRES: sampler.samples() == source.train_count(); the position is valid for the sampler;
// words.size() == sampler.batch_size() * source.layout().words(). Error: as fill_train.
Status fill_batch(const SampleSource& source, const EpochSampler& sampler, DataCursor at,
                  VirtualRank rank, std::span<float> words);

}  // namespace es::store
