#pragma once
// The quality of a model on the evaluation samples. The outputs of the model become totals that can
// be added over parts of the evaluation set, and totals become the metrics that people read.
//
//   classification      top1 (displayed as "accuracy"), top5
//   recommendation      hit_rate@10, ndcg@10 among one rated item and 99 others
//   question answering  exact_match, f1 (SQuAD v1.1)
//   detection           map50: mean average precision at an overlap of one half (VOC 2010 on)
//   language modelling  perplexity, which is exp of the mean loss
//   captured model      what the job names (outputs_sink.cc); otherwise top1, if the model predicts
//                       labels (SampleSource::has_labels); perplexity, if its data are token files
//
// Each task also has the mean loss. All values but the loss, the perplexity, mse and mae are in
// [0, 1]. The
// arithmetic is fp64 in a written order, without libm.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  bool hit = false;  // it is a true box that no better box has hit
  bool operator==(const ScoredBox&) const = default;
};

// The best answer to a question among the windows seen until now.
struct ScoredAnswer {
  std::uint64_t question = 0;
  float score = 0;   // logit of the first token plus logit of the last token
  double exact = 0;  // 0 or 1
  double f1 = 0;
  bool operator==(const ScoredAnswer&) const = default;
};

// The totals of an evaluation of some samples. Parts are appended in the order of their samples.
// How the samples were divided changes only the rounding of sums of reals (losses and gains).
struct MetricTotals {
  std::uint64_t samples = 0;
  // Samples with an output or a loss that is NaN or infinite. If there are any, the following
  // members are empty, because no metric can be computed, and the bits of a NaN are not the same
  // everywhere.
  std::uint64_t not_finite = 0;
  // The mean loss is the sum of the losses, each times its weight, divided by the sum of the
  // weights. A weight is 1, or less for a sample with labels that the loss ignores, or what the
  // weights of classes give.
  double loss_sum = 0, loss_weight = 0;
  // classification: number of samples with the true class among the first 1 and the first 5;
  // captured model that predicts labels: the first of these; with metrics of the job: for each of
  // them a sum and its divisor, which MetricSink::complete() has written;
  // recommendation: number of groups, number of hits, sum of the gains.
  std::vector<double> sums;
  std::vector<ScoredAnswer> answers;      // question answering; ascending questions
  std::vector<ScoredBox> boxes;           // detection
  std::vector<std::uint64_t> box_counts;  // detection: number of true boxes that count, by class

  // REQUIRES: `next` has the same task and model, and its samples follow directly; the job names no
  // metrics, whose figures are those of a whole evaluation.
  void append(const MetricTotals& next);

  // Byte form for messages: little endian, lengths before lists (metric_totals.cc).
  std::vector<std::byte> encode() const;
  // Error (usage): the bytes are too short or too long, or contain values that no encoding has.
  static Result<MetricTotals> decode(std::span<const std::byte> bytes);

  bool operator==(const MetricTotals&) const = default;
};

// Receives the outputs of a model on evaluation samples. Used by one thread.
class MetricSink {
 public:
  // Creates the sink of the spec's task. `source` is the source of the samples; `inputs` are those
  // of the model file, nullptr for a built-in model. REQUIRES: check_metrics() has accepted them.
  static std::unique_ptr<MetricSink> create(const JobSpec& spec,
                                            std::shared_ptr<const SampleSource> source,
                                            const CapturedInputs* inputs = nullptr);
  virtual ~MetricSink() = default;

  // Adds the samples [begin, begin + count). `outputs` are those of the model, each [count][...];
  // `losses` and `weights` are [count], and a loss contains its weight already. `target` has the
  // words [count][...] of the field target_field(), if there is one. REQUIRES: samples
  // arrive in ascending order without a gap; the first one is a multiple of eval_group(); the sizes
  // are those of the spec's model.
  void add(std::uint64_t begin, std::uint64_t count,
           std::span<const std::span<const float>> outputs, std::span<const double> losses,
           std::span<const double> weights, std::span<const float> target = {});

  // The field of the samples with which the outputs are compared; nothing: the source knows the
  // true values.
  virtual std::optional<std::size_t> target_field() const { return std::nullopt; }
  // All samples of the evaluation have been added.
  virtual void complete() {}

  // Totals of the samples that were added. A group that is not complete does not count.
  const MetricTotals& totals() const { return totals_; }

 protected:
  // `output` contains the slices of sample `index`, one for each output of the model; all are
  // finite.
  virtual void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) = 0;
  // The words of the target of the sample that add_sample() gets.
  std::span<const float> target() const { return target_; }

  MetricTotals totals_;

 private:
  std::uint64_t next_ = 0;  // the next expected sample, after the first one
  std::span<const float> target_;
};

struct NamedMetric {
  std::string name;
  double value = 0;
  bool operator==(const NamedMetric&) const = default;
};

// Checks that the metrics of the job can be computed. `inputs` as for MetricSink::create. Error
// (usage): naming the metric, and what is allowed.
Status check_metrics(const JobSpec& spec, const CapturedInputs* inputs);

// Checks that a job that decides by evaluations (decides()) has samples for them and names metrics
// that they have. Error (usage): naming the field, the metric, and what is allowed.
Status check_decisions(const JobSpec& spec, const CapturedInputs* inputs, std::uint64_t eval_count);

// The value of a metric by the name that users see: "accuracy" is top1. NaN: there is no such one.
double metric_value(const std::vector<NamedMetric>& metrics, const std::string& name);

// The metrics of the task, the main one first and "loss" last. Without samples all are 0; with a
// sample that is not finite all are NaN. The loss of samples without any weight is NaN too, as in
// PyTorch, and so is a metric of the job that is not defined, such as the auc of one class.
std::vector<NamedMetric> summarise(Task task, const MetricTotals& totals);

// The same for a job; a captured model on token files has the metrics of a language model.
std::vector<NamedMetric> summarise(const JobSpec& spec, const MetricTotals& totals);

}  // namespace es::store
