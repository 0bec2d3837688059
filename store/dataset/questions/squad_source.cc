// Samples of question answering from DIR/train-v1.1.json and DIR/dev-v1.1.json (squad_reader.h),
// with the WordPiece vocabulary of data.vocabulary_file.
//
// Let T = data.tokens. A question keeps its first min(64, T / 3) tokens. Its context is cut into
// windows of as many tokens as remain; each window begins T / 3 tokens after the previous one (the
// published stride is 128 of 384), until a window reaches the end. Every window is a sample. The
// answer (in training the first one) is the tokens that have a byte in common with its text.
#include "store/dataset/sources.h"

#include <algorithm>

#include "store/dataset/layouts.h"
#include "store/dataset/questions/question_block.h"
#include "store/dataset/questions/squad_reader.h"
#include "store/dataset/questions/vocabulary_file.h"
#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::uint32_t kQuestionTokensMax = 64;

struct Context {
  std::string text;
  std::vector<BertPiece> pieces;
};

struct Question {
  std::uint32_t context = 0;
  std::vector<std::int32_t> ids;
  ContextSpan answer;                // in the whole context
  std::vector<std::string> answers;  // texts; evaluation only
};

struct Window {
  std::uint32_t question = 0;
  std::uint32_t begin = 0, count = 0;  // tokens of the context
};

struct Windows {
  std::vector<Context> contexts;
  std::vector<Question> questions;
  std::vector<Window> windows;
};

// The pieces that have a byte in common with [begin, end).
ContextSpan span_of(const std::vector<BertPiece>& pieces, std::uint32_t begin, std::uint32_t end) {
  const auto first = std::ranges::upper_bound(pieces, begin, {}, &BertPiece::end);
  const auto after = std::ranges::lower_bound(pieces, end, {}, &BertPiece::begin);
  if (after <= first) return {};
  return {static_cast<std::uint32_t>(first - pieces.begin()),
          static_cast<std::uint32_t>(after - pieces.begin()) - 1};
}

// Reads one half of the data set.
class Builder {
 public:
  Builder(const BertVocabulary& vocabulary, std::uint32_t tokens)
      : vocabulary_(vocabulary), tokens_(tokens) {}

  Result<Windows> read(const std::filesystem::path& file, Half half) {
    Result<std::vector<SquadParagraph>> paragraphs = read_squad(file);
    if (!paragraphs) return paragraphs.error();
    for (std::size_t i = 0; i < paragraphs->size(); ++i) {
      SquadParagraph& paragraph = (*paragraphs)[i];
      std::vector<BertPiece> pieces = vocabulary_.pieces(paragraph.context);
      if (pieces.empty())
        return bad_content(
            file.string(),
            "context of paragraph " + std::to_string(i) + " (of those with questions, from 0)",
            "a text with at least one token");
      out_.contexts.push_back({std::move(paragraph.context), std::move(pieces)});
      for (const SquadQuestion& question : paragraph.questions) add(question, half);
    }
    return std::move(out_);
  }

 private:
  void add(const SquadQuestion& text, Half half) {
    const std::vector<BertPiece>& pieces = out_.contexts.back().pieces;
    Question question;
    question.context = static_cast<std::uint32_t>(out_.contexts.size() - 1);
    const std::size_t longest = std::min(kQuestionTokensMax, tokens_ / 3);
    for (const BertPiece& piece : vocabulary_.pieces(text.text))
      if (question.ids.size() < longest) question.ids.push_back(piece.id);
    const SquadAnswer& answer = text.answers.front();
    question.answer = span_of(pieces, answer.begin,
                              answer.begin + static_cast<std::uint32_t>(answer.text.size()));
    if (half == Half::kEval)
      for (const SquadAnswer& accepted : text.answers) question.answers.push_back(accepted.text);
    out_.questions.push_back(std::move(question));
    add_windows();
  }

  void add_windows() {
    const Question& question = out_.questions.back();
    const auto size = static_cast<std::uint32_t>(out_.contexts.back().pieces.size());
    const auto room = tokens_ - kSpecialCount - static_cast<std::uint32_t>(question.ids.size());
    // Windows normally overlap, so that an answer at the end of one window lies in the middle of
    // the next. The step is never larger than a window, so no token is left out.
    for (std::uint32_t begin = 0;; begin += std::min(room, tokens_ / 3)) {
      const std::uint32_t count = std::min(room, size - begin);
      out_.windows.push_back({static_cast<std::uint32_t>(out_.questions.size() - 1), begin, count});
      if (begin + count == size) return;
    }
  }

  const BertVocabulary& vocabulary_;
  std::uint32_t tokens_;
  Windows out_;
};

// The answer relative to a window, if the whole answer is in the window.
ContextSpan within(const ContextSpan& answer, const Window& window) {
  const bool inside = answer.first <= answer.last && answer.first >= window.begin &&
                      answer.last < window.begin + window.count;
  if (!inside) return {};
  return {answer.first - window.begin, answer.last - window.begin};
}

class SquadSource final : public RecordSource {
 public:
  SquadSource(const JobSpec& spec, const BertVocabulary& vocabulary, Windows train, Windows eval)
      : RecordSource({.layout = question_layout(spec.data.tokens, vocabulary.size()),
                      .train_count = train.windows.size(),
                      .eval_count = eval.windows.size()}),
        special_{vocabulary.pad(), vocabulary.cls(), vocabulary.sep()},
        train_(std::move(train)),
        eval_(std::move(eval)) {}

  QuestionWindow question_window(std::uint64_t index) const override {
    const Window& window = eval_.windows[index];
    const Question& question = eval_.questions[window.question];
    const std::uint32_t first = context_offset(question.ids.size());
    return {window.question, first, first + window.count, question.answers};
  }

  std::string answer_text(std::uint64_t index, std::uint32_t first,
                          std::uint32_t last) const override {
    const Window& window = eval_.windows[index];
    const Question& question = eval_.questions[window.question];
    const Context& context = eval_.contexts[question.context];
    const std::uint32_t offset = context_offset(question.ids.size());
    ES_CHECK(first >= offset && first <= last && last - offset < window.count);
    const std::uint32_t begin = context.pieces[window.begin + first - offset].begin;
    const std::uint32_t end = context.pieces[window.begin + last - offset].end;
    return context.text.substr(begin, end - begin);
  }

 private:
  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch&) const override {
    const Windows& all = half == Half::kTrain ? train_ : eval_;
    const Window& window = all.windows[index];
    const Question& question = all.questions[window.question];
    const std::vector<BertPiece>& pieces = all.contexts[question.context].pieces;
    std::vector<std::int32_t> ids(window.count);
    for (std::uint32_t i = 0; i < window.count; ++i) ids[i] = pieces[window.begin + i].id;
    write_question(block, position, special_, question.ids, ids, within(question.answer, window));
    return {};
  }

  SpecialTokens special_;
  Windows train_, eval_;
};

}  // namespace

Result<std::shared_ptr<const SampleSource>> squad_source(const JobSpec& spec) {
  const Result<BertVocabulary> vocabulary = BertVocabulary::read(spec.data.vocabulary_file);
  if (!vocabulary) return vocabulary.error();
  const std::filesystem::path root = spec.data.path;
  Result<Windows> train =
      Builder(*vocabulary, spec.data.tokens).read(root / "train-v1.1.json", Half::kTrain);
  if (!train) return train.error();
  Result<Windows> eval =
      Builder(*vocabulary, spec.data.tokens).read(root / "dev-v1.1.json", Half::kEval);
  if (!eval) return eval.error();
  return std::shared_ptr<const SampleSource>(
      std::make_shared<SquadSource>(spec, *vocabulary, *std::move(train), *std::move(eval)));
}

}  // namespace es::store
