#include "proto/base/check.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

// 1 / log2(rank + 2) for the ranks that count.
// A list of literals, because log2 of a C library may differ in the last bit between machines.
constexpr double kGain[] = {1.0,
                            0.63092975357145743,
                            0.5,
                            0.43067655807339306,
                            0.38685280723454163,
                            0.35620718710802218,
                            0.33333333333333333,
                            0.31546487678572871,
                            0.30102999566398120,
                            0.28906482631788786};
constexpr std::size_t kFirst = std::size(kGain);

// Number of items that are not below the first one.
// The first item of a group is the true one. An equal score counts as better than it, so a model
// that gives all items one score hits nothing.
std::size_t rank_of_first(std::span<const float> scores) {
  std::size_t rank = 0;
  for (const float other : scores.subspan(1)) rank += !(other < scores[0]);
  return rank;
}

class RankingSink final : public MetricSink {
 public:
  explicit RankingSink(SourcePointer source) : source_(std::move(source)) {
    totals_.sums.assign(3, 0.0);
  }

 private:
  void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) override {
    ES_CHECK(output.size() == 1 && output[0].size() == 1);
    // A part of an evaluation begins with a whole group, so no group is divided between two sinks.
    ES_CHECK(index % source_->eval_group() == scores_.size());
    scores_.push_back(output[0][0]);
    if (scores_.size() < source_->eval_group()) return;
    const std::size_t rank = rank_of_first(scores_);
    totals_.sums[0] += 1;
    if (rank < kFirst) {
      totals_.sums[1] += 1;
      // With one rated item the ideal gain is 1, so this gain is the NDCG of the group.
      totals_.sums[2] += kGain[rank];
    }
    scores_.clear();
  }

  SourcePointer source_;
  std::vector<float> scores_;  // scores of the group that is not complete
};

}  // namespace

std::unique_ptr<MetricSink> ranking_sink(SourcePointer source) {
  return std::make_unique<RankingSink>(std::move(source));
}

}  // namespace es::store
