#pragma once
// How good a model is on the evaluation samples: from its outputs to sums that add up over parts of
// the evaluation set, and from sums to the figures that people read.
//
//   classification      top1 (shown as "accuracy"), top5
//   recommendation      hit_rate@10, ndcg@10 among one rated item and 99 others
//   question answering  exact_match, f1 (SQuAD v1.1)
//   detection           map50: mean average precision at an overlap of one half (VOC 2010 on)
// each with the mean loss. All are in [0, 1] but the loss. fp64 in a written order without libm.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// A box that the model found.
struct ScoredBox {
  std::int32_t label = 0;
  float score = 0;
  bool hit = false;  // it is a true box that no better one has taken
  bool operator==(const ScoredBox&) const = default;
};

// The best answer to a question among the windows seen so far.
struct ScoredAnswer {
  std::uint64_t question = 0;
  float score = 0;   // logit of the first plus logit of the last token
  double exact = 0;  // 0 or 1
  double f1 = 0;
  bool operator==(const ScoredAnswer&) const = default;
};

// What an evaluation of a part of the samples adds up to. Parts are appended in the order of their
// samples, then the result is that of the whole, whatever the parts were.
struct MetricTotals {
  std::uint64_t samples = 0;
  // Samples with an output or a loss that is NaN or infinite. With any, what follows is empty: no
  // figure can be made of them, and the bits of a NaN are not the same everywhere.
  std::uint64_t not_finite = 0;
  double loss_sum = 0;
  // classification: right among the first 1, among the first 5;
  // recommendation: groups, hits, sum of the gains.
  std::vector<double> sums;
  std::vector<ScoredAnswer> answers;      // question answering; ascending questions
  std::vector<ScoredBox> boxes;           // detection
  std::vector<std::uint64_t> box_counts;  // detection: true boxes that count, by class

  // REQUIRES: of the same task and model; the samples of `next` follow.
  void append(const MetricTotals& next);

  // Byte form for messages: little endian, lengths before lists (metric_totals.cc).
  std::vector<std::byte> encode() const;
  // Error (usage): cut short, bytes left over, or numbers that no encoding has.
  static Result<MetricTotals> decode(std::span<const std::byte> bytes);

  bool operator==(const MetricTotals&) const = default;
};

// Takes the outputs of a model on evaluation samples. Used by one thread.
class MetricSink {
 public:
  // The sink of the spec's task. The source is the one that the samples come from.
  static std::unique_ptr<MetricSink> create(const JobSpec& spec,
                                            std::shared_ptr<const SampleSource> source);
  virtual ~MetricSink() = default;

  // Adds the samples [begin, begin + count). outputs: the model's, each [count][...]; losses
  // [count]. REQUIRES: samples arrive in ascending order without a gap; the first one is a multiple
  // of eval_group(); sizes are those of the spec's model.
  void add(std::uint64_t begin, std::uint64_t count,
           std::span<const std::span<const float>> outputs, std::span<const double> losses);

  // Of what was added. A group that is not complete does not count.
  const MetricTotals& totals() const { return totals_; }

 protected:
  // `output` holds the slices of sample `index`, one per output of the model; all are finite.
  virtual void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) = 0;

  MetricTotals totals_;

 private:
  std::uint64_t next_ = 0;  // the sample that has to come; after the first
};

struct NamedMetric {
  std::string name;
  double value = 0;
  bool operator==(const NamedMetric&) const = default;
};

// The task's figures, the headline first and "loss" last. Without any sample all are 0, and with
// any that is not finite all are NaN.
std::vector<NamedMetric> summarise(Task task, const MetricTotals& totals);

}  // namespace es::store
