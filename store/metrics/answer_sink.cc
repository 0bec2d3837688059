#include "proto/base/check.h"
#include "store/metrics/answer_score.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

class AnswerSink final : public MetricSink {
 public:
  explicit AnswerSink(SourcePointer source) : source_(std::move(source)) {}

 private:
  void add_sample(std::uint64_t index, std::span<const std::span<const float>> output) override {
    ES_CHECK(output.size() == 1 && output[0].size() % 2 == 0);
    const std::size_t tokens = output[0].size() / 2;
    const QuestionWindow window = source_->question_window(index);
    const PredictedSpan span =
        best_span(output[0].first(tokens), output[0].subspan(tokens), window.first, window.end);
    // A later window of the same question replaces the answer only if its score is higher.
    const bool same =
        !totals_.answers.empty() && totals_.answers.back().question == window.question;
    if (same && !(totals_.answers.back().score < span.score)) return;
    if (!same) totals_.answers.emplace_back();
    const AnswerScore score =
        score_answer(source_->answer_text(index, span.first, span.last), window.answers);
    totals_.answers.back() = {window.question, span.score, score.exact, score.f1};
  }

  SourcePointer source_;
};

}  // namespace

std::unique_ptr<MetricSink> answer_sink(SourcePointer source) {
  return std::make_unique<AnswerSink>(std::move(source));
}

}  // namespace es::store
