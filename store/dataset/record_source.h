#pragma once
// RecordSource is a SampleSource that writes one sample at a time. The readers and generators of
// this folder derive from it.
#include <bit>
#include <cstddef>
#include <span>

#include "proto/base/check.h"
#include "store/dataset/images/raw_image.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// The half of the data to which a sample belongs. The numbers of both halves begin at 0.
enum class Half { kTrain, kEval };

// The memory of one batch, accessed by field and sample. Does not own the memory.
class SampleBlock {
 public:
  SampleBlock(const SampleLayout& layout, std::uint64_t batch, std::span<float> words)
      : layout_(layout), batch_(batch), words_(words) {
    ES_CHECK(words.size() == batch * static_cast<std::uint64_t>(layout.words()));
  }

  // Values of field `field` of the sample at `position` of the batch.
  std::span<float> field(std::size_t field, std::uint64_t position) const {
    const auto size = static_cast<std::uint64_t>(layout_.fields[field].words());
    const auto offset = static_cast<std::uint64_t>(layout_.offset(field));
    return words_.subspan(batch_ * offset + position * size, size);
  }
  void set_i32(std::size_t field, std::uint64_t position, std::size_t index,
               std::int32_t value) const {
    this->field(field, position)[index] = std::bit_cast<float>(value);
  }
  void copy_sample(std::uint64_t from, std::uint64_t to) const;

 private:
  const SampleLayout& layout_;
  std::uint64_t batch_;
  std::span<float> words_;
};

// Memory that is reused for all samples of a batch.
struct Scratch {
  RawImage decoded;
  std::vector<std::uint8_t> pixels;
};

class RecordSource : public SampleSource {
 public:
  const SampleLayout& layout() const final { return facts_.layout; }
  std::uint64_t train_count() const final { return facts_.train_count; }
  std::uint64_t eval_count() const final { return facts_.eval_count; }
  std::uint64_t eval_group() const final { return facts_.eval_group; }
  Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                    std::span<float> words) const final;
  Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                   std::span<float> words) const final;

 protected:
  explicit RecordSource(DataFacts facts) : facts_(std::move(facts)) {}

  // Writes every field of the sample to `position` of the block. `epoch` is used for kTrain only.
  virtual Status write(Half half, std::uint64_t epoch, std::uint64_t index,
                       const SampleBlock& block, std::uint64_t position,
                       Scratch& scratch) const = 0;

 private:
  DataFacts facts_;
};

}  // namespace es::store
