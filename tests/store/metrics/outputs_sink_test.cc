// The metrics that a job with a model file names.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "store/metrics/metric.h"
#include "store/metrics/score_ranks.h"

namespace es::store {
namespace {

CapturedInputs inputs_of(ValueType type, std::vector<std::int64_t> target,
                         std::vector<std::int64_t> output, bool probabilities = false) {
  std::int64_t words = 1;
  for (const std::int64_t extent : target) words *= extent;
  SampleField field{.name = "y",
                    .type = type == ValueType::kF32 ? FieldType::kF32 : FieldType::kI32,
                    .height = words};
  CapturedInputs inputs;
  inputs.inputs = {{{.name = "x"}, ValueType::kF32, {}}, {field, type, std::move(target)}};
  inputs.target = CapturedTarget{
      .input = 1, .output = std::move(output), .decides = true, .probabilities = probabilities};
  return inputs;
}

JobSpec naming(std::vector<std::string> metrics) {
  JobSpec spec;
  spec.model.file = "net.esmodel";
  spec.metrics = std::move(metrics);
  return spec;
}

std::vector<float> words_of(const std::vector<std::int32_t>& labels) {
  std::vector<float> words;
  for (const std::int32_t label : labels) words.push_back(std::bit_cast<float>(label));
  return words;
}

// The metrics of `samples` samples, which are added in pieces.
std::vector<NamedMetric> metrics_of(const JobSpec& spec, const CapturedInputs& inputs,
                                    std::size_t samples, const std::vector<float>& outputs,
                                    const std::vector<float>& targets, std::size_t piece) {
  const auto sink = MetricSink::create(spec, nullptr, &inputs);
  REQUIRE(sink->target_field() == 1);
  for (std::size_t at = 0; at < samples; at += piece) {
    const std::size_t count = std::min(piece, samples - at);
    const std::span<const float> out =
        std::span(outputs).subspan(at * outputs.size() / samples, count * outputs.size() / samples);
    const std::span<const float> true_values =
        std::span(targets).subspan(at * targets.size() / samples, count * targets.size() / samples);
    sink->add(at, count, std::span(&out, 1), std::vector<double>(count, 1.0),
              std::vector<double>(count, 1.0), true_values);
  }
  sink->complete();
  const auto again = MetricTotals::decode(sink->totals().encode());
  REQUIRE(again.ok());
  return summarise(spec, *again);
}

double value_of(const std::vector<NamedMetric>& metrics, const std::string& name) {
  for (const NamedMetric& metric : metrics)
    if (metric.name == name) return metric.value;
  FAIL("no metric ", name);
  return 0;
}

std::string refused(const JobSpec& spec, const CapturedInputs& inputs) {
  const Status status = check_metrics(spec, &inputs);
  REQUIRE_FALSE(status.ok());
  return status.error().message;
}

}  // namespace

TEST_SUITE("store/metrics/outputs") {
  TEST_CASE("classes of rows: ignored labels do not count, and equal logits favour lower classes") {
    const CapturedInputs inputs = inputs_of(ValueType::kI32, {2}, {2, 3});
    const JobSpec spec = naming({"accuracy", "top2", "f1"});
    // Rows: right; second; ignored; wrong (equal logits, label 2).
    const std::vector<float> outputs{9, 1, 0, /**/ 5, 4, 0, /**/ 0, 0, 9, /**/ 1, 1, 1};
    const std::vector<float> labels = words_of({0, 1, -100, 2});
    for (const std::size_t piece : {1U, 2U}) {
      const auto metrics = metrics_of(spec, inputs, 2, outputs, labels, piece);
      CHECK(metrics.front().name == "top1");
      CHECK(metrics.back().name == "loss");
      CHECK(value_of(metrics, "top1") == 1.0 / 3);
      CHECK(value_of(metrics, "top2") == 2.0 / 3);
      // Class 0: 1 right, 3 predicted, 1 true. The other two are true once and never predicted.
      CHECK(value_of(metrics, "f1") == 0.5 / 3);
    }
  }

  TEST_CASE("classes on the first axis of a sample") {
    const CapturedInputs inputs = inputs_of(ValueType::kI32, {2}, {3, 2});
    // Logits [3][2]: the first row has class 1, the second one class 2.
    const auto metrics =
        metrics_of(naming({"accuracy"}), inputs, 1, {0, 0, 5, 1, 2, 7}, words_of({1, 2}), 1);
    CHECK(value_of(metrics, "top1") == 1.0);
  }

  TEST_CASE("numbers: squares, distances and both sides of the threshold") {
    const auto metrics_for = [](bool probabilities) {
      const CapturedInputs inputs = inputs_of(ValueType::kF32, {}, {1}, probabilities);
      return metrics_of(naming({"mse", "mae", "accuracy", "f1_binary", "auc", "map"}), inputs, 4,
                        {0.25F, 0.75F, -1.0F, 0.75F}, {0, 1, 0, 0}, 3);
    };
    const auto logits = metrics_for(false);
    CHECK(value_of(logits, "mse") == (0.0625 + 0.0625 + 1.0 + 0.5625) / 4);
    CHECK(value_of(logits, "mae") == (0.25 + 0.25 + 1.0 + 0.75) / 4);
    CHECK(value_of(logits, "top1") == 2.0 / 4);
    CHECK(value_of(logits, "f1_binary") == 2.0 / 4);
    CHECK(value_of(logits, "auc") == 2.5 / 3);  // one of three pairs has equal scores
    CHECK(value_of(logits, "map") == 0.5);
    CHECK(value_of(metrics_for(true), "top1") == 3.0 / 4);
  }

  TEST_CASE("a target [c,h,w] is stored as [h,w,c]") {
    const CapturedInputs inputs = inputs_of(ValueType::kF32, {2, 1, 3}, {2, 1, 3});
    const auto metrics =
        metrics_of(naming({"mse"}), inputs, 1, {1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}, 1);
    CHECK(value_of(metrics, "mse") == 0.0);
  }

  TEST_CASE("a metric that is not defined is NaN, and the others stay") {
    const CapturedInputs inputs = inputs_of(ValueType::kI32, {}, {2});
    const auto metrics =
        metrics_of(naming({"auc", "accuracy"}), inputs, 2, {1, 0, 1, 0}, words_of({0, 0}), 1);
    CHECK(std::isnan(value_of(metrics, "auc")));
    CHECK(value_of(metrics, "top1") == 1.0);
  }

  TEST_CASE("a value that is not finite gives no metric") {
    const CapturedInputs inputs = inputs_of(ValueType::kI32, {}, {2});
    const auto metrics =
        metrics_of(naming({"f1"}), inputs, 2, {1, std::numeric_limits<float>::infinity(), 1, 0},
                   words_of({0, 1}), 1);
    CHECK(std::isnan(value_of(metrics, "f1")));
  }

  TEST_CASE("the order of the rows decides no bit of an area") {
    std::vector<ScoredRow> rows;
    for (int i = 0; i < 500; ++i)
      rows.push_back({std::floor(std::fmod(i * 37.7, 40.0)) / 7.0, i % 3 == 0});
    std::vector<ScoredRow> back(rows.rbegin(), rows.rend());
    CHECK(roc_area(rows) == roc_area(back));
    CHECK(precision_area(rows) == precision_area(back));
    CHECK_FALSE(roc_area({{1.0, true}}).has_value());
    CHECK_FALSE(precision_area({{1.0, false}}).has_value());
  }

  TEST_CASE("a metric that does not fit the model is refused") {
    const CapturedInputs classes = inputs_of(ValueType::kI32, {}, {3});
    const CapturedInputs numbers = inputs_of(ValueType::kF32, {4}, {4});
    CHECK(check_metrics(naming({"accuracy", "top5", "f1", "auc", "map"}), &classes).ok());
    CHECK(check_metrics(naming({"accuracy", "f1", "auc", "map", "mse", "mae"}), &numbers).ok());
    CHECK(refused(naming({"f1", "mse"}), classes) ==
          "job: metrics = \"mse\": allowed is a metric of this model; this one is for a model with "
          "as many outputs as its target has elements");
    CHECK(refused(naming({"f1_binary"}), classes).ends_with("a model with two classes"));
    CapturedInputs real = numbers;
    real.target->decides = false;
    CHECK(check_metrics(naming({"mse", "mae"}), &real).ok());
    CHECK(refused(naming({"accuracy"}), real).ends_with("whose loss is a binary cross entropy"));
    CHECK(refused(naming({"top5"}), numbers).ends_with("a model that predicts classes"));
    CHECK(refused(naming({"f1_binary"}), numbers).ends_with("one output for a sample"));
    CHECK(refused(naming({"f1"}), inputs_of(ValueType::kF32, {4}, {5}))
              .find("neither the shape of the target \"y\"") != std::string::npos);
    CHECK(refused(naming({"f1"}), CapturedInputs()).find("no target") != std::string::npos);
  }
}

}  // namespace es::store
