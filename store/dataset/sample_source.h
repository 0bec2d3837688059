#pragma once
// SampleSource provides the samples with which a job is trained and evaluated.
//
// A training sample is a pure function of (job spec, epoch, number of the sample), and an
// evaluation sample of (job spec, number). It is computed with integers, and fp32 or fp64 in a
// written order without libm, so its bits are the same on any machine and for any thread that fills
// the batch. The fields are described in proto/base/sample_layout.h.
//
// Sources are immutable; any number of threads may use one at the same time.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"
#include "store/dataset/captured_inputs.h"
#include "store/dataset/epoch_sampler.h"

namespace es::store {

// What a job has to know about its data before it begins.
struct DataFacts {
  SampleLayout layout;
  std::uint64_t train_count = 0;
  std::uint64_t eval_count = 0;
  // Evaluation samples are compared within groups of this size. Parts for several workers may begin
  // only at multiples of it. It is 1 except for ratings.
  std::uint64_t eval_group = 1;
  // The digest of the file of a Python dataset, which belongs to the job; empty for other data.
  std::string path_digest;
};

// A box of the annotation of an image.
struct TrueBox {
  std::int32_t label = 0;
  float x = 0, y = 0, w = 0, h = 0;  // centre and sides, in (0, 1] of the image
  bool difficult = false;            // not counted, neither as found nor as missed (VOC)
};

// One evaluation sample of question answering: a window of the context of a question.
struct QuestionWindow {
  // Ascending with the samples; the windows of one question are adjacent.
  std::uint64_t question = 0;
  std::uint32_t first = 0;  // tokens [first, end) of the sample are context
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
  // DataFacts::path_digest.
  virtual std::string path_digest() const { return {}; }

  // The number of length buckets (length_buckets.h); 1: all samples have one layout.
  virtual std::uint32_t buckets() const { return 1; }
  // The same samples with the layout of a bucket, to whose shapes they are padded. Valid as long as
  // this source, which is that of bucket 0. REQUIRES: bucket < buckets(); the samples that are
  // filled belong to the bucket or to one that it holds.
  virtual const SampleSource& of_bucket(std::uint32_t bucket) const;
  // The words of a sample in the bucket that has most.
  std::int64_t words_max() const;

  // Writes the samples as one block of a batch (proto/base/sample_layout.h). REQUIRES: words.size()
  // == samples.size() * layout().words(); each sample < train_count(). Error: a file is damaged or
  // missing; the error names it.
  virtual Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                            std::span<float> words) const = 0;

  // Writes the evaluation samples [begin, begin + count), and repeats the last one until the block
  // contains batch_size samples. REQUIRES: 1 <= count <= batch_size, begin + count <= eval_count(),
  // words.size() == batch_size * layout().words(). Error: as fill_train.
  virtual Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                           std::span<float> words) const = 0;

  // The true values with which metrics compare predictions. Each function may be called only for
  // its task; index < eval_count(), and for Python datasets the sample was filled before. For a
  // captured model has_labels() tells whether the model predicts labels; a negative one is ignored
  // by its loss.
  virtual bool has_labels() const { return false; }
  virtual std::int32_t true_label(std::uint64_t index) const;  // classification, captured model
  virtual std::vector<TrueBox> true_boxes(std::uint64_t index) const;  // detection
  virtual QuestionWindow question_window(std::uint64_t index) const;   // question answering
  // The text of tokens [first, last] of the sample. REQUIRES: both are in the context of the
  // window.
  virtual std::string answer_text(std::uint64_t index, std::uint32_t first,
                                  std::uint32_t last) const;
};

// Opens the data of a job. `inputs` are those of the model file; nullptr for a built-in model.
// REQUIRES: a valid spec (validate). Errors (usage, not found): name the
// file, the record, the field, the value and what is allowed; also if the data do not match the
// fields of the spec (sizes, classes). Image files of folders are read only when they are used.
Result<std::shared_ptr<const SampleSource>> open_samples(const JobSpec& spec,
                                                         const CapturedInputs* inputs = nullptr);

// The facts about the same data, with as little reading as possible. They come from the spec
// (synthetic, python), from labels and headers (idx, webdataset), from headers (arrays, tokens),
// from file sizes (cifar10), or from the lists of images (image_folder, voc). Files of ratings and
// squad are read once, because only their whole text gives the number of samples. Errors: the same,
// except for what is not read; open_samples may still fail because of that.
Result<DataFacts> data_facts(const JobSpec& spec, const CapturedInputs* inputs = nullptr);

// Names of samples in errors: "training sample 17 of DIR", "evaluation sample 3 of synthetic data".
std::string training_sample_name(const DataSpec& data, std::uint64_t index);
std::string evaluation_sample_name(const DataSpec& data, std::uint64_t index);

// Writes the mini-batch of `rank` at `at`, with the layout of sampler.bucket(at, rank). REQUIRES:
// sampler.samples() == source.train_count(); the position is valid for the sampler; words.size() >=
// sampler.batch_size() * the words of a sample of this layout. Error: as fill_train.
Status fill_batch(const SampleSource& source, const EpochSampler& sampler, DataCursor at,
                  VirtualRank rank, std::span<float> words);

}  // namespace es::store
