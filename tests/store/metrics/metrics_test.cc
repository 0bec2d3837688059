#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "proto/base/yolo_anchors.h"
#include "store/metrics/answer_score.h"
#include "store/metrics/average_precision.h"
#include "store/metrics/detections.h"
#include "store/metrics/metric.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// Synthetic data of the task of the model.
JobSpec job(const std::string& model) {
  JobSpec spec;
  spec.model.name = model;
  spec.model.classes = model == "yolov3" ? 3 : 7;
  spec.data.samples = 100;
  spec.data.eval_samples = 300;
  spec.data.height = spec.data.width = 64;
  spec.data.channels = 3;
  spec.data.tokens = 20;
  spec.data.vocabulary = 60;
  return spec;
}

double named(const std::vector<NamedMetric>& metrics, const std::string& name) {
  for (const NamedMetric& metric : metrics)
    if (metric.name == name) return metric.value;
  FAIL("no metric ", name);
  return 0;
}

// Adds samples [begin, end) with their outputs [count][size] each.
void add(MetricSink& sink, std::uint64_t begin, std::uint64_t end,
         const std::vector<std::vector<float>>& outputs) {
  std::vector<std::span<const float>> spans(outputs.begin(), outputs.end());
  sink.add(begin, end - begin, spans, std::vector<double>(end - begin, 2.0),
           std::vector<double>(end - begin, 1.0));
}

// A sink for samples with random outputs of `sizes` per sample, filled from begin to end in pieces.
MetricTotals random_totals(const JobSpec& spec, const std::shared_ptr<const SampleSource>& source,
                           const std::vector<std::size_t>& sizes, std::uint64_t begin,
                           std::uint64_t end, std::uint64_t piece) {
  const auto sink = MetricSink::create(spec, source);
  for (std::uint64_t at = begin; at < end; at += piece) {
    const std::uint64_t stop = std::min(end, at + piece);
    std::vector<std::vector<float>> outputs(sizes.size());
    for (std::size_t o = 0; o < sizes.size(); ++o)
      for (std::uint64_t i = at; i < stop; ++i) {
        std::mt19937_64 random(1000 * i + o);
        for (std::size_t v = 0; v < sizes[o]; ++v)
          outputs[o].push_back(float(std::int64_t(random() % 2001) - 1000) / 250.0f);
      }
    add(*sink, at, stop, outputs);
  }
  return sink->totals();
}

struct TaskCase {
  const char* model;
  std::vector<std::size_t> sizes;  // The sizes of the model's outputs, per sample.
};
const std::vector<TaskCase> kTasks = {{"small_cnn", {7}},
                                      {"neumf", {1}},
                                      {"bert", {40}},
                                      {"gpt2", {40}},
                                      {"yolov3", {2 * 2 * 24, 4 * 4 * 24, 8 * 8 * 24}}};

// A question of two windows and one of one window. Each window has six tokens, and the context is
// 2..5.
class TwoQuestions : public SampleSource {
 public:
  const SampleLayout& layout() const override { return layout_; }
  std::uint64_t train_count() const override { return 0; }
  std::uint64_t eval_count() const override { return 3; }
  std::uint64_t eval_group() const override { return 1; }
  Status fill_train(std::uint64_t, std::span<const std::uint64_t>,
                    std::span<float>) const override {
    return {};
  }
  Status fill_eval(std::uint64_t, std::uint64_t, std::uint64_t, std::span<float>) const override {
    return {};
  }
  QuestionWindow question_window(std::uint64_t index) const override {
    if (index < 2) return {0, 2, 5, {"the cat"}};
    return {1, 2, 5, {"a dog barks", "dog"}};
  }
  std::string answer_text(std::uint64_t index, std::uint32_t first,
                          std::uint32_t last) const override {
    const std::vector<std::vector<std::string>> words = {{"", "", "old", "grey", "mouse"},
                                                         {"", "", "The", "Cat!", "sits"},
                                                         {"", "", "dog", "barks", "."}};
    std::string text = words[index][first];
    for (std::uint32_t i = first + 1; i <= last; ++i) text += " " + words[index][i];
    return text;
  }

 private:
  SampleLayout layout_;
};

// Logits [2][6] that name the span.
std::vector<float> span_logits(std::uint32_t first, std::uint32_t last, float strength) {
  std::vector<float> logits(12, -1.0f);
  logits[first] = strength;
  logits[6 + last] = strength;
  logits[0] = logits[6] = 99.0f;  // Outside of the context.
  return logits;
}

}  // namespace

TEST_SUITE("store/metrics") {
  TEST_CASE("classification: correct for the first class and for the first five") {
    const JobSpec spec = job("small_cnn");
    const auto source = *open_samples(spec);  // The label is i mod 7.
    const auto sink = MetricSink::create(spec, source);
    add(*sink, 0, 4, {{9, 1,   2, 3, 4, 5, 6,     // Label 0: first.
                       9, 4.5, 2, 3, 4, 5, 6,     // Label 1: fourth.
                       9, 9,   0, 9, 9, 9, 9,     // Label 2: last.
                       1, 1,   1, 1, 1, 1, 1}});  // Label 3: three lower classes are equal.
    add(*sink, 4, 5, {{9, 9, 9, 9, 8, 9, 9}});    // Label 4: last.
    const auto metrics = summarise(Task::kClassification, sink->totals());
    CHECK(metrics.front().name == "top1");
    CHECK(named(metrics, "top1") == 1.0 / 5);
    CHECK(named(metrics, "top5") == 3.0 / 5);
    CHECK(named(metrics, "loss") == 2.0);
  }

  TEST_CASE(
      "an output or a loss that is not finite gives no metric, and the same bytes everywhere") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const TaskCase& task : kTasks) {
      CAPTURE(task.model);
      const JobSpec spec = job(task.model);
      const auto source = *open_samples(spec);
      const auto one_bad = [&](float output, double loss) {
        const auto sink = MetricSink::create(spec, source);
        for (std::uint64_t i = 0; i < 300; ++i) {
          std::vector<std::vector<float>> values;
          for (const std::size_t size : task.sizes) values.emplace_back(size, 0.5F);
          if (i == 120) values.back().back() = output;
          const std::vector<std::span<const float>> outputs(values.begin(), values.end());
          sink->add(i, 1, outputs, std::vector<double>{i == 120 ? loss : 1.0},
                    std::vector<double>{1.0});
        }
        return sink->totals();
      };
      const MetricTotals found = one_bad(kNan, 1.0);
      CHECK(found == MetricTotals{.samples = 300, .not_finite = 1});
      CHECK(one_bad(-kNan, 1.0).encode() == found.encode());
      CHECK(one_bad(kInfinity, 1.0) == found);
      CHECK(one_bad(0.5F, kNan) == found);
      CHECK(one_bad(0.5F, -kNan).encode() == found.encode());
      for (const NamedMetric& metric : summarise(task_of(spec.model), found))
        CHECK(std::isnan(metric.value));
      const MetricTotals whole = one_bad(0.5F, 1.0);
      CHECK(whole.not_finite == 0);
      MetricTotals sum = whole;
      sum.append(found);
      CHECK(sum == MetricTotals{.samples = 600, .not_finite = 1});
      sum = found;
      sum.append(whole);
      CHECK(sum == MetricTotals{.samples = 600, .not_finite = 1});
      CHECK(*MetricTotals::decode(sum.encode()) == sum);
    }
  }

  TEST_CASE("recommendation: hits and gains among the first ten of a hundred") {
    const JobSpec spec = job("neumf");
    const auto source = *open_samples(spec);
    const auto sink = MetricSink::create(spec, source);
    std::vector<float> scores(300, 0.0f);
    scores[0] = 1.0f;    // Rank 0.
    scores[100] = 1.0f;  // Rank 3: two above, one equal.
    scores[101] = scores[150] = 2.0f, scores[199] = 1.0f;
    scores[200] = 0.0f;  // All are equal: rank 99.
    add(*sink, 0, 130, {{scores.begin(), scores.begin() + 130}});
    CHECK(sink->totals().sums[0] == 1);
    add(*sink, 130, 300, {{scores.begin() + 130, scores.end()}});
    const auto metrics = summarise(Task::kRecommendation, sink->totals());
    CHECK(metrics.front().name == "hit_rate@10");
    CHECK(named(metrics, "hit_rate@10") == 2.0 / 3);
    CHECK(named(metrics, "ndcg@10") == doctest::Approx((1 + 1 / std::log2(5.0)) / 3));
  }

  TEST_CASE("recommendation: equals brute force on random scores") {
    std::mt19937_64 random(seed("ranking"));
    JobSpec spec = job("neumf");
    spec.data.eval_samples = 5000;
    const auto source = *open_samples(spec);
    const auto sink = MetricSink::create(spec, source);
    double hits = 0, gains = 0;
    for (std::uint64_t group = 0; group < 50; ++group) {
      std::vector<float> scores(100);
      for (float& score : scores) score = float(random() % 1000);
      scores[0] += 800;
      add(*sink, 100 * group, 100 * group + 100, {scores});
      const auto rank = std::count_if(scores.begin() + 1, scores.end(),
                                      [&](float other) { return other >= scores[0]; });
      hits += rank < 10;
      gains += rank < 10 ? std::log(2.0) / std::log(double(rank) + 2) : 0;
    }
    const auto metrics = summarise(Task::kRecommendation, sink->totals());
    CHECK(hits > 0);
    CHECK(named(metrics, "hit_rate@10") == hits / 50);
    CHECK(named(metrics, "ndcg@10") == doctest::Approx(gains / 50).epsilon(1e-12));
  }

  TEST_CASE("answers are compared as the official script compares them") {
    const std::vector<std::string> one{"The Cat, sat!"};
    CHECK(normalised_words("  The  Cat's (an) a-b ") == std::vector<std::string>{"cats", "ab"});
    CHECK(score_answer("cat sat", one) == AnswerScore{1.0, 1.0});
    CHECK(score_answer("cat", one) == AnswerScore{0.0, 2.0 / 3});
    CHECK(score_answer("cat cat sat", one) == AnswerScore{0.0, 4.0 / 5});
    CHECK(score_answer("dog", one) == AnswerScore{0.0, 0.0});
    CHECK(score_answer("dog", std::vector<std::string>{"cat", "big dog", "a dog"}) ==
          AnswerScore{1.0, 1.0});
    CHECK(score_answer("the", std::vector<std::string>{"an"}) == AnswerScore{1.0, 0.0});
  }

  TEST_CASE("the best span equals brute force, and stays in the context") {
    std::mt19937_64 random(seed("spans"));
    for (int round = 0; round < 300; ++round) {
      const auto tokens = std::uint32_t(2 + random() % 60);
      std::vector<float> start(tokens), end(tokens);
      for (float& x : start) x = float(random() % 50);
      for (float& x : end) x = float(random() % 50);
      const auto first = std::uint32_t(random() % (tokens - 1));
      const auto stop = first + 1 + std::uint32_t(random() % (tokens - first));
      float best = -1;
      for (std::uint32_t i = first; i < std::min(stop, tokens); ++i)
        for (std::uint32_t j = i; j < std::min({stop, tokens, i + 30}); ++j)
          best = std::max(best, start[i] + end[j]);
      const PredictedSpan span = best_span(start, end, first, std::min(stop, tokens));
      CHECK(span.score == best);
      CHECK(start[span.first] + end[span.last] == best);
      CHECK((span.first >= first && span.last >= span.first && span.last < stop));
    }
  }

  TEST_CASE("question answering: the window with the largest score answers a question") {
    const auto source = std::make_shared<TwoQuestions>();
    const auto sink = MetricSink::create(job("bert"), source);
    add(*sink, 0, 2, {[] {
      std::vector<float> both = span_logits(2, 3, 1.0f);
      const std::vector<float> second = span_logits(2, 3, 2.0f);
      both.insert(both.end(), second.begin(), second.end());
      return both;
    }()});
    add(*sink, 2, 3, {span_logits(3, 3, 5.0f)});
    const auto metrics = summarise(Task::kQuestionAnswering, sink->totals());
    CHECK(metrics.front().name == "exact_match");
    CHECK(named(metrics, "exact_match") == 0.5);
    CHECK(named(metrics, "f1") == doctest::Approx((1.0 + 2.0 / 3) / 2));

    // The parts of a question come together when totals are appended.
    MetricTotals whole;
    for (const float strength : {1.0f, 2.0f}) {
      const auto part = MetricSink::create(job("bert"), source);
      const auto index = std::uint64_t(strength) - 1;
      add(*part, index, index + 1, {span_logits(2, 3, strength)});
      whole.append(part->totals());
    }
    REQUIRE(whole.answers.size() == 1);
    CHECK(whole.answers[0] == sink->totals().answers[0]);
  }

  TEST_CASE("question answering: a model that knows the answers has all of them right") {
    const JobSpec spec = job("bert");
    const auto source = *open_samples(spec);
    const auto sink = MetricSink::create(spec, source);
    for (std::uint64_t i = 0; i < 300; ++i) {
      std::vector<float> words(source->layout().words());
      REQUIRE(source->fill_eval(i, 1, 1, words).ok());
      std::vector<float> logits(40, 0.0f);
      logits[std::bit_cast<std::int32_t>(words[41])] = 3.0f;
      logits[20 + std::bit_cast<std::int32_t>(words[42])] = 3.0f;
      add(*sink, i, i + 1, {logits});
    }
    CHECK(named(summarise(Task::kQuestionAnswering, sink->totals()), "exact_match") == 1.0);
    CHECK(named(summarise(Task::kQuestionAnswering, sink->totals()), "f1") == 1.0);
  }

  TEST_CASE("overlap of boxes") {
    const FoundBox a{.x = 0.5, .y = 0.5, .w = 0.2, .h = 0.2};
    FoundBox b = a;
    CHECK(overlap(a, b) == doctest::Approx(1.0));
    b.x = 0.6;
    CHECK(overlap(a, b) == doctest::Approx(1.0 / 3));
    b.x = 0.7;
    CHECK(overlap(a, b) == doctest::Approx(0.0));
    b.w = b.h = 0;
    CHECK(overlap(a, b) == 0.0);
  }

  TEST_CASE("an anchor's outputs become a box for each likely class") {
    // 2 x 3 cells and 2 classes, without any object.
    std::vector<float> output(2 * 3 * 3 * 7, -20.0f);
    float* cell = &output[((1 * 3 + 2) * 3 + 1) * 7];  // Row 1, column 2, anchor 1.
    const float values[] = {0.0f, std::log(3.0f), std::log(0.5f), 0.0f, 20.0f, 20.0f, 0.0f};
    std::copy(std::begin(values), std::end(values), cell);
    std::vector<FoundBox> found;
    decode_scale(output, 2, {2, 3}, 2, found);
    REQUIRE(found.size() == 2);
    CHECK(found[0].label == 0);
    CHECK(found[0].score == doctest::Approx(1.0));
    CHECK(found[1].score == doctest::Approx(0.5));
    CHECK(found[0].x == doctest::Approx(2.5 / 3));
    CHECK(found[0].y == doctest::Approx(1.75 / 2));
    CHECK(found[0].w == doctest::Approx(0.5 * 16 / 416));
    CHECK(found[0].h == doctest::Approx(30.0 / 416));
    cell[2] = std::numeric_limits<float>::quiet_NaN();
    found.clear();
    decode_scale(output, 2, {2, 3}, 2, found);
    CHECK(found.empty());
  }

  TEST_CASE("of overlapping boxes of one class only the strongest stays") {
    const FoundBox a{.label = 0, .score = 0.9, .x = 0.5, .y = 0.5, .w = 0.2, .h = 0.2};
    FoundBox near = a, other = a, far = a;
    near.score = 0.95, near.x = 0.51;
    other.label = 1;
    far.x = 0.65, far.score = 0.5;
    const auto kept = suppress({a, near, other, far});
    REQUIRE(kept.size() == 3);
    CHECK(kept[0].score == 0.95);
    CHECK(kept[1].label == 1);
    CHECK(kept[2].x == 0.65);
  }

  TEST_CASE("a true box is matched once, by the strongest; a difficult one has no effect") {
    const std::vector<TrueBox> truth{
        {.label = 0, .x = 0.5f, .y = 0.5f, .w = 0.2f, .h = 0.2f},
        {.label = 1, .x = 0.2f, .y = 0.2f, .w = 0.2f, .h = 0.2f, .difficult = true}};
    const std::vector<FoundBox> found{
        {.label = 0, .score = 0.9, .x = 0.52, .y = 0.5, .w = 0.2, .h = 0.2},
        {.label = 0, .score = 0.8, .x = 0.5, .y = 0.5, .w = 0.2, .h = 0.2},
        {.label = 1, .score = 0.7, .x = 0.5, .y = 0.5, .w = 0.2, .h = 0.2},
        {.label = 1, .score = 0.6, .x = 0.2, .y = 0.2, .w = 0.2, .h = 0.2}};
    CHECK(match(found, truth) ==
          std::vector<ScoredBox>{{0, 0.9f, true}, {0, 0.8f, false}, {1, 0.7f, false}});
  }

  TEST_CASE("average precision: an example by hand, and brute force") {
    // Precision where recall grows: 1/1, 2/3, 3/6. It does not rise from left to right, so it stays
    // as it is.
    const std::vector<ScoredBox> boxes{{0, 0.9f, true},  {0, 0.8f, false}, {0, 0.7f, true},
                                       {0, 0.6f, false}, {0, 0.5f, false}, {0, 0.4f, true}};
    CHECK(average_precision(boxes, 4) == doctest::Approx((1 + 2.0 / 3 + 0.5) / 4));
    CHECK(average_precision({}, 4) == 0.0);

    std::mt19937_64 random(seed("average precision"));
    for (int round = 0; round < 200; ++round) {
      std::vector<ScoredBox> drawn(random() % 40);
      std::uint64_t hits = 0;
      for (ScoredBox& box : drawn) {
        box = {0, float(random() % 1'000'000), random() % 2 == 0};
        hits += box.hit;
      }
      const std::uint64_t count = hits + 1 + random() % 5;
      // The area by its definition: for each recall the best precision at that recall or beyond.
      std::sort(drawn.begin(), drawn.end(), [](auto& a, auto& b) { return a.score > b.score; });
      double area = 0;
      for (std::uint64_t wanted = 1; wanted <= hits; ++wanted) {
        double best = 0, seen = 0;
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          seen += drawn[i].hit;
          if (seen >= double(wanted)) best = std::max(best, seen / double(i + 1));
        }
        area += best / double(count);
      }
      std::shuffle(drawn.begin(), drawn.end(), random);
      CHECK(average_precision(drawn, count) == doctest::Approx(area).epsilon(1e-12));
    }
  }

  TEST_CASE("the mean is over the classes that occur") {
    const std::vector<ScoredBox> boxes{{0, 0.9f, true}, {2, 0.9f, false}, {1, 0.5f, false}};
    const std::vector<std::uint64_t> counts{1, 0, 2};
    CHECK(mean_average_precision(boxes, counts) == 0.5);
    CHECK(mean_average_precision(boxes, std::vector<std::uint64_t>{0, 0, 0}) == 0.0);
  }

  TEST_CASE("detection: outputs that describe the true boxes have precision 1") {
    JobSpec spec = job("yolov3");
    spec.data.eval_samples = 20;
    const auto source = *open_samples(spec);
    const auto sink = MetricSink::create(spec, source);
    constexpr std::size_t kChannels = 8;
    for (std::uint64_t i = 0; i < 20; ++i) {
      std::vector<std::vector<float>> outputs;
      for (const std::size_t side : {2, 4, 8})
        outputs.emplace_back(side * side * 3 * kChannels, -20.0f);
      for (const TrueBox& box : source->true_boxes(i)) {
        const int col = int(box.x * 8), row = int(box.y * 8);
        float* values = &outputs[2][(row * 8 + col) * 3 * kChannels];
        const auto logit = [](double p) {
          p = std::clamp(p, 1e-6, 1 - 1e-6);
          return float(std::log(p / (1 - p)));
        };
        values[0] = logit(box.x * 8 - col);
        values[1] = logit(box.y * 8 - row);
        values[2] = std::log(box.w * 416 / kYoloAnchorWidth[2][0]);
        values[3] = std::log(box.h * 416 / kYoloAnchorHeight[2][0]);
        values[4] = values[5 + box.label] = 20.0f;
      }
      add(*sink, i, i + 1, outputs);
    }
    const auto metrics = summarise(Task::kDetection, sink->totals());
    CHECK(metrics.front().name == "map50");
    CHECK(named(metrics, "map50") == 1.0);
  }

  TEST_CASE("totals of parts add up to those of the whole, also after they were sent as bytes") {
    for (const TaskCase& task : kTasks) {
      CAPTURE(task.model);
      const JobSpec spec = job(task.model);
      const auto source = *open_samples(spec);
      const MetricTotals whole = random_totals(spec, source, task.sizes, 0, 300, 300);
      CHECK(random_totals(spec, source, task.sizes, 0, 300, 7) == whole);
      MetricTotals parts;
      for (std::uint64_t begin = 0; begin < 300; begin += 100) {
        const auto part = random_totals(spec, source, task.sizes, begin, begin + 100, 30);
        const auto decoded = MetricTotals::decode(part.encode());
        REQUIRE(decoded.ok());
        CHECK(*decoded == part);
        parts.append(*decoded);
      }
      CHECK(parts == whole);
      const auto metrics = summarise(task_of(spec.model), whole);
      for (const NamedMetric& metric : metrics)
        if (metric.name != "loss" && metric.name != "perplexity")
          CHECK((metric.value >= 0 && metric.value <= 1));
    }
  }

  TEST_CASE("a captured model has an accuracy if it predicts labels, and always its loss") {
    TempDirectory directory;
    for (const JobSpec& spec : write_every_kind(directory.path())) {
      if (spec.data.kind != "arrays") continue;
      CapturedInputs inputs = *inputs_of(spec);  // The labels of the evaluation are 0, 1 and 2.
      for (const bool predicts : {true, false}) {
        inputs.predicts_label = predicts;
        const auto sink = MetricSink::create(spec, *open_samples(spec, &inputs));
        add(*sink, 0, 3,
            {{9, 1, 2, 3, 4,     // Label 0: first.
              4, 9, 2, 3, 4,     // Label 1: first.
              9, 0, 9, 0, 0}});  // Label 2: of equal ones the lower class is better.
        const auto metrics = summarise(Task::kCaptured, sink->totals());
        CHECK(metrics.size() == (predicts ? 2 : 1));
        CHECK(named(metrics, "loss") == 2.0);
        if (predicts) CHECK(named(metrics, "top1") == 2.0 / 3);
      }
    }
  }

  TEST_CASE("the mean loss is the sum of the losses divided by the sum of their weights") {
    const JobSpec spec = job("small_cnn");
    const auto source = *open_samples(spec);
    std::mt19937_64 random(seed("weights"));
    std::vector<double> losses, weights;
    double loss_sum = 0.0, weight_sum = 0.0;
    for (int i = 0; i < 300; ++i) {
      weights.push_back(i % 7 == 0 ? 0.0 : static_cast<double>(random() % 1000) / 300.0);
      losses.push_back(weights.back() * static_cast<double>(random() % 1000) / 700.0);
      loss_sum += losses.back();
      weight_sum += weights.back();
    }
    const auto totals_of = [&](std::uint64_t piece) {
      const auto sink = MetricSink::create(spec, source);
      for (std::uint64_t at = 0; at < 300; at += piece) {
        const std::uint64_t count = std::min<std::uint64_t>(piece, 300 - at);
        const std::vector<float> logits(7 * count, 0.5F);
        const std::span<const float> outputs[] = {logits};
        sink->add(at, count, outputs, std::span(losses).subspan(at, count),
                  std::span(weights).subspan(at, count));
      }
      return sink->totals();
    };
    const MetricTotals whole = totals_of(300);
    CHECK(named(summarise(Task::kClassification, whole), "loss") == loss_sum / weight_sum);
    for (const std::uint64_t piece : {1, 7, 64}) CHECK(totals_of(piece).encode() == whole.encode());
    CHECK(*MetricTotals::decode(whole.encode()) == whole);
  }

  TEST_CASE("samples of which no label counts have no mean loss") {
    const MetricTotals totals{.samples = 4, .sums = {1, 2}};
    const auto metrics = summarise(Task::kClassification, totals);
    CHECK(std::isnan(named(metrics, "loss")));
    CHECK(named(metrics, "top1") == 0.25);
  }

  TEST_CASE("the perplexity of a language model is exp of its mean loss, and its first metric") {
    const MetricTotals totals{.samples = 4, .loss_sum = 10.0, .loss_weight = 4.0};
    JobSpec spec;
    spec.model.name = "llama";
    const auto metrics = summarise(spec, totals);
    REQUIRE(metrics.size() == 2);
    CHECK(metrics[0].name == "perplexity");
    CHECK(std::abs(metrics[0].value - std::exp(2.5)) < 1e-13);
    CHECK(metrics[1] == NamedMetric{"loss", 2.5});

    spec.model = {.file = "net.esmodel"};
    spec.data.kind = "tokens";
    CHECK(summarise(spec, totals) == metrics);
    spec.data.kind = "arrays";
    CHECK(summarise(spec, totals) == std::vector<NamedMetric>{{"loss", 2.5}});

    const auto bad = summarise(Task::kLanguage, {.samples = 4, .not_finite = 1});
    CHECK(std::isnan(named(bad, "perplexity")));
  }

  TEST_CASE("without evaluated samples every metric is 0") {
    for (const Task task : {Task::kClassification, Task::kRecommendation, Task::kQuestionAnswering,
                            Task::kDetection, Task::kLanguage, Task::kCaptured})
      for (const NamedMetric& metric : summarise(task, {})) CHECK(metric.value == 0.0);
  }

  TEST_CASE("damaged bytes of totals are refused, or decode to totals with the same bytes") {
    std::mt19937_64 random(seed("metric totals"));
    MetricTotals totals{.samples = 9,
                        .loss_sum = 1.5,
                        .loss_weight = 4.5,
                        .sums = {1, 2},
                        .answers = {{3, 1, 1, 0.5}},
                        .boxes = {{1, 0.5f, true}, {0, 0.25f, false}},
                        .box_counts = {4, 5}};
    const std::vector<std::byte> bytes = totals.encode();
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(MetricTotals::decode(std::span(bytes).first(size)).ok());
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (int round = 0; round < 20'000; ++round) {
      const std::string damaged = mutate(text, random);
      const auto decoded = MetricTotals::decode(std::as_bytes(std::span(damaged)));
      if (!decoded.ok()) continue;
      const auto again = decoded->encode();
      REQUIRE(std::ranges::equal(again, std::as_bytes(std::span(damaged))));
    }
  }
}
