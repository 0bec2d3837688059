// The metrics that a job with a model file names, as docs/reference/model-file.md defines them.
#include <algorithm>
#include <bit>
#include <cmath>

#include "proto/base/check.h"
#include "store/fixed_math.h"
#include "store/metrics/outputs_comparison.h"
#include "store/metrics/score_ranks.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

// How often a class, or a yes, was right, predicted and true.
struct ClassCount {
  std::uint64_t right = 0, predicted = 0, labelled = 0;

  double f1() const {
    const std::uint64_t both = predicted + labelled;
    return both == 0 ? 0.0 : 2.0 * static_cast<double>(right) / static_cast<double>(both);
  }
};

// A sum and its divisor.
struct Quotient {
  double sum = 0, count = 0;
};

std::vector<MetricChoice> choices_of(const JobSpec& spec) {
  std::vector<MetricChoice> choices;
  for (const std::string& name : spec.metrics) {
    const auto choice = parse_metric(name);
    ES_CHECK(choice.has_value());
    choices.push_back(*choice);
  }
  return choices;
}

bool has_kind(const std::vector<MetricChoice>& choices, std::initializer_list<MetricKind> kinds) {
  return std::ranges::any_of(choices, [&](const MetricChoice& choice) {
    return std::ranges::find(kinds, choice.kind) != kinds.end();
  });
}

class OutputsSink final : public MetricSink {
 public:
  OutputsSink(const JobSpec& spec, const CapturedInputs& inputs, OutputsComparison comparison)
      : choices_(choices_of(spec)),
        target_input_(inputs.inputs[inputs.target->input]),
        field_(inputs.target->input),
        comparison_(comparison),
        threshold_(inputs.target->probabilities ? 0.5 : 0.0),
        counts_classes_(has_kind(choices_, {MetricKind::kF1, MetricKind::kF1Binary})),
        keeps_scores_(has_kind(choices_, {MetricKind::kAuc, MetricKind::kAveragePrecision})),
        hits_(choices_.size(), 0) {
    const bool classes = comparison.form == OutputsForm::kClasses;
    counts_.resize(classes ? comparison.classes : comparison.rows);
    // Of two classes the second is the positive one.
    scores_.resize(!classes ? comparison.rows : comparison.classes == 2 ? 1 : comparison.classes);
  }

  std::optional<std::size_t> target_field() const override { return field_; }

  void complete() override {
    if (totals_.not_finite > 0) return;
    totals_.sums.clear();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Quotient q = quotient(i);
      totals_.sums.push_back(q.sum);
      totals_.sums.push_back(q.count);
    }
  }

 private:
  void add_sample(std::uint64_t, std::span<const std::span<const float>> output) override {
    // A sample of a length bucket has fewer rows than one of the model.
    ES_CHECK(!output.empty() && target().size() <= comparison_.rows);
    for (std::size_t row = 0; row < target().size(); ++row)
      if (comparison_.form == OutputsForm::kClasses)
        add_class(row, output[0]);
      else
        add_number(row, output[0][row]);
  }

  // The target of a row, whose number counts in PyTorch's order of the elements. An input [c,h,w]
  // is stored as [h,w,c].
  float target_word(std::size_t row) const {
    const std::vector<std::int64_t>& shape = target_input_.shape;
    if (shape.size() != 3) return target()[row];
    const auto planes = static_cast<std::size_t>(shape[0]);
    const std::size_t pixels = target().size() / planes;
    return target()[row % pixels * planes + row / pixels];
  }

  void add_class(std::size_t row, std::span<const float> output) {
    // A negative label, which the loss ignores, becomes a very large number.
    const auto truth = static_cast<std::size_t>(std::bit_cast<std::int32_t>(target_word(row)));
    if (truth >= comparison_.classes) return;
    const std::span<const float> logits = logits_of(row, output);
    const std::size_t rank = rank_of(logits, truth);
    ++rows_;
    for (std::size_t i = 0; i < choices_.size(); ++i) hits_[i] += rank < choices_[i].k;
    if (counts_classes_) {
      // The first of equal logits is the better one, as in rank_of().
      const auto best = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
      ++counts_[best].predicted;
      ++counts_[truth].labelled;
      counts_[truth].right += rank == 0;
    }
    if (keeps_scores_) add_scores(logits, truth);
  }

  std::span<const float> logits_of(std::size_t row, std::span<const float> output) {
    const std::size_t classes = comparison_.classes;
    if (!comparison_.classes_first) return output.subspan(row * classes, classes);
    logits_.resize(classes);
    for (std::size_t c = 0; c < classes; ++c) logits_[c] = output[c * target().size() + row];
    return logits_;
  }

  // The scores of several rows are compared, so they are probabilities. Of two classes the
  // difference of the logits has the same order.
  void add_scores(std::span<const float> logits, std::size_t truth) {
    if (scores_.size() == 1) {
      scores_[0].push_back(
          {static_cast<double>(logits[1]) - static_cast<double>(logits[0]), truth == 1});
      return;
    }
    const auto highest = static_cast<double>(std::ranges::max(logits));
    double sum = 0;
    for (const float logit : logits) sum += fixed_exp(static_cast<double>(logit) - highest);
    for (std::size_t c = 0; c < logits.size(); ++c)
      scores_[c].push_back({fixed_exp(static_cast<double>(logits[c]) - highest) / sum, c == truth});
  }

  void add_number(std::size_t row, float output) {
    const float word = target_word(row);
    const double truth = target_input_.type == ValueType::kF32
                             ? static_cast<double>(word)
                             : static_cast<double>(std::bit_cast<std::int32_t>(word));
    const double difference = static_cast<double>(output) - truth;
    squares_ += difference * difference;
    distances_ += std::fabs(difference);
    const bool positive = truth > 0.5, predicted = static_cast<double>(output) > threshold_;
    ++rows_;
    for (std::uint64_t& hits : hits_) hits += positive == predicted;
    counts_[row].predicted += predicted;
    counts_[row].labelled += positive;
    counts_[row].right += predicted && positive;
    if (keeps_scores_) scores_[row].push_back({static_cast<double>(output), positive});
  }

  Quotient quotient(std::size_t choice) const {
    const auto rows = static_cast<double>(rows_);
    switch (choices_[choice].kind) {
      case MetricKind::kTop:
        return {static_cast<double>(hits_[choice]), rows};
      case MetricKind::kF1:
        return mean_f1();
      case MetricKind::kF1Binary:
        return {rows_ == 0 ? 0.0 : counts_.back().f1(), rows_ == 0 ? 0.0 : 1.0};
      case MetricKind::kAuc:
        return mean_area(roc_area);
      case MetricKind::kAveragePrecision:
        return mean_area(precision_area);
      case MetricKind::kMse:
        return {squares_, rows};
      case MetricKind::kMae:
        return {distances_, rows};
    }
    return {};
  }

  // Classes count if they are predicted or true somewhere. Of outputs that each say yes or no, all
  // count.
  Quotient mean_f1() const {
    Quotient mean;
    for (const ClassCount& count : counts_) {
      const bool occurs = count.predicted + count.labelled > 0;
      if (comparison_.form == OutputsForm::kClasses ? !occurs : rows_ == 0) continue;
      mean.sum += count.f1();
      mean.count += 1;
    }
    return mean;
  }

  // Over the classes or outputs for which the area is defined.
  Quotient mean_area(std::optional<double> (*area)(std::vector<ScoredRow>)) const {
    Quotient mean;
    for (const std::vector<ScoredRow>& rows : scores_)
      if (const std::optional<double> value = area(rows)) {
        mean.sum += *value;
        mean.count += 1;
      }
    return mean;
  }

  std::vector<MetricChoice> choices_;
  CapturedInput target_input_;
  std::size_t field_;
  OutputsComparison comparison_;
  double threshold_;
  bool counts_classes_, keeps_scores_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> hits_;             // [metric]
  std::vector<ClassCount> counts_;              // [class], or [output]
  std::vector<std::vector<ScoredRow>> scores_;  // the same; one for two classes
  double squares_ = 0, distances_ = 0;
  std::vector<float> logits_;  // of one row
};

}  // namespace

std::unique_ptr<MetricSink> outputs_sink(const JobSpec& spec, const CapturedInputs& inputs) {
  const auto comparison = outputs_comparison(inputs);
  ES_CHECK(comparison.has_value());
  return std::make_unique<OutputsSink>(spec, inputs, *comparison);
}

Status check_metrics(const JobSpec& spec, const CapturedInputs* inputs) {
  if (spec.metrics.empty()) return {};
  const auto wrong = [](const std::string& name, const std::string& allowed) {
    return usage_error("job: metrics = \"" + name + "\": allowed is " + allowed);
  };
  const std::string& first = spec.metrics.front();
  if (inputs == nullptr || !inputs->target)
    return wrong(first,
                 "none, because the model has no target: one input on which no output depends, or "
                 "one of them with the name label, labels or target");
  const auto comparison = outputs_comparison(*inputs);
  if (!comparison)
    return wrong(first,
                 "none, because the first output of the model has neither the shape of the "
                 "target \"" +
                     inputs->inputs[inputs->target->input].field.name +
                     "\" nor one more axis, of classes");
  for (const std::string& name : spec.metrics)
    if (const char* needed = metric_needs(parse_metric(name).value_or(MetricChoice{}), *comparison))
      return wrong(name, std::string("a metric of this model; this one is for ") + needed);
  return {};
}

}  // namespace es::store
