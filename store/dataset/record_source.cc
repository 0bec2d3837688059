#include "store/dataset/record_source.h"

#include <algorithm>

namespace es::store {

void SampleBlock::copy_sample(std::uint64_t from, std::uint64_t to) const {
  for (std::size_t f = 0; f < layout_.fields.size(); ++f)
    std::ranges::copy(field(f, from), field(f, to).begin());
}

Status RecordSource::fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                                std::span<float> words) const {
  const SampleBlock block(facts_.layout, samples.size(), words);
  Scratch scratch;
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    ES_CHECK(samples[i] < facts_.train_count);
    ES_RETURN_IF_ERROR(write(Half::kTrain, epoch, samples[i], block, i, scratch));
  }
  return {};
}

Status RecordSource::fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                               std::span<float> words) const {
  ES_CHECK(count >= 1 && count <= batch_size);
  ES_CHECK(begin <= facts_.eval_count && count <= facts_.eval_count - begin);
  const SampleBlock block(facts_.layout, batch_size, words);
  Scratch scratch;
  for (std::uint64_t i = 0; i < count; ++i)
    ES_RETURN_IF_ERROR(write(Half::kEval, 0, begin + i, block, i, scratch));
  // The rest of the batch is filled with the last sample, so a model never computes with memory
  // that was not written.
  for (std::uint64_t i = count; i < batch_size; ++i) block.copy_sample(count - 1, i);
  return {};
}

}  // namespace es::store
