// Samples that a Python dataset computes, for models from model files.
//
// data.path is a file with the pickled dataset, which the Python package has written
// (python/easyscale/dataset_file.py). Its digest belongs to the job. Python runs in loader
// processes (loader_pool.h), and only when samples are computed: the job file says how many there
// are. The random numbers of Python, NumPy and PyTorch are seeded for every sample from the seed of
// the job, the epoch and the number of the sample, so a sample is a pure function of these.
#include "store/dataset/sources.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>

#include "proto/base/check.h"
#include "store/dataset/arrays/input_conversion.h"
#include "store/dataset/data_file.h"
#include "store/dataset/python/loader_pool.h"
#include "store/dataset/record_source.h"
#include "store/field_error.h"
#include "store/path_roots.h"

namespace es::store {
namespace {

constexpr const char* kLabelInput = "label";

Result<Digest> digest_of_file(const DataFile& file) {
  constexpr std::uint64_t kPieceBytes = 1 << 20;
  DigestBuilder digest;
  std::vector<std::uint8_t> piece;
  for (std::uint64_t at = 0; at < file.bytes(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(kPieceBytes, file.bytes() - at)));
    ES_RETURN_IF_ERROR(file.read(at, piece));
    digest.add(piece.data(), piece.size());
  }
  return digest.finish();
}

// Writes the arrays of a sample, as a loader process has computed them, into a block of a batch.
Status write_sample(const SampleBlock& block, std::uint64_t position,
                    std::span<const InputConversion> conversions,
                    std::span<const std::uint8_t> bytes) {
  for (std::size_t f = 0; f < conversions.size(); ++f) {
    const InputConversion& conversion = conversions[f];
    const std::span<float> words = block.field(f, position);
    const auto wrong = conversion.convert(bytes.first(conversion.bytes()), words);
    if (wrong)
      return conversion.out_of_range("input \"" + conversion.input().field.name + "\"", *wrong);
    bytes = bytes.subspan(words.size_bytes());
  }
  return {};
}

class PythonSource;

// The samples of a dataset in one length bucket.
class PaddedSamples final : public SampleSource {
 public:
  PaddedSamples(const PythonSource& all, std::uint32_t bucket, SampleLayout layout)
      : all_(all), bucket_(bucket), layout_(std::move(layout)) {}

  const SampleLayout& layout() const override { return layout_; }
  std::uint64_t train_count() const override;
  std::uint64_t eval_count() const override;
  std::uint64_t eval_group() const override { return 1; }
  Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                    std::span<float> words) const override;
  Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                   std::span<float> words) const override;

 private:
  const PythonSource& all_;
  std::uint32_t bucket_;
  SampleLayout layout_;
};

class PythonSource final : public SampleSource {
 public:
  PythonSource(const JobSpec& spec, const CapturedInputs& inputs, DataFile file)
      : inputs_(inputs_by_bucket(spec, inputs)),
        data_(spec.data),
        batch_(spec.batch_size),
        file_(std::move(file)),
        label_(inputs.layout().find(kLabelInput)),
        labels_(inputs.predicts_label ? spec.data.eval_samples : 0),
        pool_(pool_options(spec)) {
    for (std::uint32_t b = 0; b < inputs_.size(); ++b)
      buckets_.push_back(std::make_unique<PaddedSamples>(*this, b, inputs.of(b).layout()));
  }

  const SampleLayout& layout() const override { return buckets_.front()->layout(); }
  std::uint64_t train_count() const override { return data_.samples; }
  std::uint64_t eval_count() const override { return data_.eval_samples; }
  std::uint64_t eval_group() const override { return 1; }
  std::string path_digest() const override { return data_.path_digest; }
  std::uint32_t buckets() const override { return static_cast<std::uint32_t>(buckets_.size()); }
  const SampleSource& of_bucket(std::uint32_t bucket) const override { return *buckets_[bucket]; }

  bool has_labels() const override { return !labels_.empty(); }
  // The evaluation sample was filled before.
  std::int32_t true_label(std::uint64_t index) const override { return labels_[index]; }

  Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                    std::span<float> words) const override {
    return buckets_.front()->fill_train(epoch, samples, words);
  }
  Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                   std::span<float> words) const override {
    return buckets_.front()->fill_eval(begin, count, batch_size, words);
  }

  // A request is as large as the shared memory at most.
  Status fill(const SampleOrigin& from, std::span<const std::uint64_t> samples,
              const SampleBlock& block) const {
    for (std::size_t first = 0; first < samples.size(); first += batch_) {
      const std::size_t count = std::min<std::size_t>(batch_, samples.size() - first);
      const auto write = [&](std::size_t position, std::span<const InputConversion> conversions,
                             std::span<const std::uint8_t> bytes) {
        return write_sample(block, first + position, conversions, bytes);
      };
      ES_RETURN_IF_ERROR(pool_.fill(from, samples.subspan(first, count), write));
    }
    return {};
  }
  // Keeps the labels of evaluation samples, the first `count` of a block.
  void keep_labels(std::uint64_t begin, std::uint64_t count, const SampleBlock& block) const {
    for (std::uint64_t i = 0; i < count && has_labels(); ++i)
      labels_[begin + i] = std::bit_cast<std::int32_t>(block.field(label_, i).front());
  }

 private:
  static BucketInputs inputs_by_bucket(const JobSpec& spec, const CapturedInputs& inputs) {
    BucketInputs all = {inputs.inputs};
    if (!spec.data.length_buckets.empty())
      for (const CapturedInputs& other : inputs.others) all.push_back(other.inputs);
    return all;
  }
  LoaderPoolOptions pool_options(const JobSpec& spec) const {
    const auto name = [this](Half half, std::uint64_t index) {
      return half == Half::kTrain ? training_sample_name(data_, index)
                                  : evaluation_sample_name(data_, index);
    };
    return {.command = {data_.python, data_.python_path, data_.path, file_.descriptor()},
            .seed = spec.seed,
            .batch = batch_,
            .timeout_s = data_.timeout_s,
            .train_count = data_.samples,
            .eval_count = data_.eval_samples,
            .buckets = inputs_,
            .name = name};
  }

  BucketInputs inputs_;
  DataSpec data_;
  std::uint32_t batch_;
  DataFile file_;  // its descriptor is that of all loader processes
  std::size_t label_;
  // Of the evaluation samples that were filled. Two threads may fill the same sample.
  mutable std::vector<std::atomic<std::int32_t>> labels_;
  mutable LoaderPool pool_;
  std::vector<std::unique_ptr<const PaddedSamples>> buckets_;
};

std::uint64_t PaddedSamples::train_count() const {
  return all_.train_count();
}
std::uint64_t PaddedSamples::eval_count() const {
  return all_.eval_count();
}

Status PaddedSamples::fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                                 std::span<float> words) const {
  return all_.fill({.half = Half::kTrain, .bucket = bucket_, .epoch = epoch}, samples,
                   SampleBlock(layout_, samples.size(), words));
}

Status PaddedSamples::fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                                std::span<float> words) const {
  ES_CHECK(count >= 1 && count <= batch_size);
  std::vector<std::uint64_t> samples(count);
  std::iota(samples.begin(), samples.end(), begin);
  const SampleBlock block(layout_, batch_size, words);
  ES_RETURN_IF_ERROR(all_.fill({.half = Half::kEval, .bucket = bucket_}, samples, block));
  for (std::uint64_t i = count; i < batch_size; ++i) block.copy_sample(count - 1, i);
  all_.keep_labels(begin, count, block);
  return {};
}

}  // namespace

Result<std::shared_ptr<const SampleSource>> python_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs) {
  ES_RETURN_IF_ERROR(check_program("data.python", spec.data.python));
  auto file = DataFile::open(spec.data.path);
  if (!file) return file.error();
  const auto digest = digest_of_file(*file);
  if (!digest) return digest.error();
  JobSpec opened = spec;
  opened.data.path_digest = digest->hex();
  if (!spec.data.path_digest.empty() && spec.data.path_digest != opened.data.path_digest)
    return bad_field(spec.data.path, "digest", opened.data.path_digest,
                     spec.data.path_digest + ", which it had when the job was admitted");
  return std::shared_ptr<const SampleSource>(
      std::make_shared<PythonSource>(opened, inputs, *std::move(file)));
}

}  // namespace es::store
