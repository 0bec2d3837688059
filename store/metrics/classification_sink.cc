#include "proto/base/check.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

class ClassificationSink final : public MetricSink {
 public:
  explicit ClassificationSink(SourcePointer source) : source_(std::move(source)) {
    totals_.sums.assign(2, 0.0);
  }

 private:
  void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) override {
    const auto label = static_cast<std::size_t>(source_->true_label(index));
    ES_CHECK(output.size() == 1 && label < output[0].size());
    const std::size_t rank = rank_of(output[0], label);
    totals_.sums[0] += rank < 1;
    totals_.sums[1] += rank < 5;
  }

  SourcePointer source_;
};

class CapturedSink final : public MetricSink {
 public:
  explicit CapturedSink(SourcePointer source) : source_(std::move(source)) {
    if (source_->has_labels()) totals_.sums.assign(1, 0.0);
  }

 private:
  void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) override {
    if (totals_.sums.empty()) return;
    const std::int32_t label = source_->true_label(index);
    // An accuracy over all samples has no meaning if the loss ignores one.
    if (label < 0) return totals_.sums.clear();
    ES_CHECK(!output.empty() && static_cast<std::size_t>(label) < output[0].size());
    totals_.sums[0] += rank_of(output[0], static_cast<std::size_t>(label)) < 1;
  }

  SourcePointer source_;
};

}  // namespace

std::unique_ptr<MetricSink> captured_sink(SourcePointer source) {
  return std::make_unique<CapturedSink>(std::move(source));
}

std::unique_ptr<MetricSink> classification_sink(SourcePointer source) {
  return std::make_unique<ClassificationSink>(std::move(source));
}

}  // namespace es::store
