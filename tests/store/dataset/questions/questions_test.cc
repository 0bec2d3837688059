#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

#include "store/dataset/questions/squad_reader.h"
#include "store/dataset/sources.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

// The words w0 .. w59; digits are pieces.
std::string vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\nwhere\n?\n";
  for (int i = 0; i < 60; ++i) text += "w" + std::to_string(i) + "\n";
  return text;
}
constexpr int kWord0 = 7;

std::string words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? " W" : "W") + std::to_string(i);
  return text;
}

std::string question(const std::string& id, const std::string& text, const std::string& answer,
                     std::size_t start) {
  return R"({"id": ")" + id + R"(", "question": ")" + text + R"(", "answers": [{"text": ")" +
         answer + R"(", "answer_start": )" + std::to_string(start) + "}]}";
}

std::string squad(const std::string& context, const std::string& questions) {
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": ")" + context +
         R"(", "qas": [)" + questions + "]}]}]}";
}

// Training: one context of 50 words with the answers w3 w4 and w45. Evaluation: the same with one
// question.
std::string train_json() {
  const std::string text = words(50);
  return squad(text, question("q1", "Who?", "W3 W4", text.find("W3 ")) + ", " +
                         question("q2", "where?", "W45", text.find("W45")));
}

void write_set(const TempDirectory& directory) {
  write_file(directory / "vocab.txt", vocabulary());
  write_file(directory / "train-v1.1.json", train_json());
  const std::string text = words(50);
  write_file(directory / "dev-v1.1.json",
             squad(text, question("d1", "who ?", "W30", text.find("W30"))));
}

JobSpec job(const TempDirectory& directory, std::uint32_t tokens = 24) {
  JobSpec spec;
  spec.model.name = "bert";
  spec.data.kind = "squad";
  spec.data.path = directory.path().string();
  spec.data.vocabulary_file = (directory / "vocab.txt").string();
  spec.data.tokens = tokens;
  return spec;
}

struct Sample {
  std::vector<std::int32_t> ids, types;
  std::int32_t length, first, last;
};

Sample sample_of(const std::vector<float>& words) {
  std::vector<std::int32_t> all;
  for (const float word : words) all.push_back(std::bit_cast<std::int32_t>(word));
  const auto tokens = std::ptrdiff_t(all.size() - 3) / 2;
  return {{all.begin(), all.begin() + tokens},
          {all.begin() + tokens, all.begin() + 2 * tokens},
          all[2 * tokens],
          all[2 * tokens + 1],
          all[2 * tokens + 2]};
}

Sample train_sample(const SampleSource& source, std::uint64_t index) {
  std::vector<float> words(source.layout().words());
  REQUIRE(source.fill_train(0, std::span(&index, 1), words).ok());
  return sample_of(words);
}

Sample eval_sample(const SampleSource& source, std::uint64_t index) {
  std::vector<float> words(source.layout().words());
  REQUIRE(source.fill_eval(index, 1, 1, words).ok());
  return sample_of(words);
}

std::string squad_error(const std::string& json) {
  TempDirectory directory;
  write_file(directory / "x.json", json);
  const auto read = read_squad(directory / "x.json");
  return read.ok() ? "" : read.error().message;
}

}  // namespace

TEST_SUITE("store/dataset/questions") {
  TEST_CASE("a context becomes windows that overlap and reach its end") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *squad_source(job(directory));
    // 24 tokens: 2 of the question, 3 special ones, 19 of the context. Windows begin at 0, 8, ..,
    // 32.
    REQUIRE(source->train_count() == 10);
    CHECK(source->eval_count() == 5);
    for (int w = 0; w < 5; ++w) {
      const Sample sample = train_sample(*source, w);
      std::vector<std::int32_t> ids{2, 4, 6, 3}, types{0, 0, 0, 0};
      for (int i = 8 * w; i < std::min(8 * w + 19, 50); ++i) {
        ids.push_back(kWord0 + i);
        types.push_back(1);
      }
      ids.push_back(3);
      types.push_back(1);
      CHECK(sample.length == int(ids.size()));
      ids.resize(24, 0);
      types.resize(24, 0);
      CHECK(sample.ids == ids);
      CHECK(sample.types == types);
    }
  }

  TEST_CASE("the answer is given in windows that contain all of it, and otherwise it is 0 0") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *squad_source(job(directory));
    CHECK(train_sample(*source, 0).first == 4 + 3);
    CHECK(train_sample(*source, 0).last == 4 + 4);
    CHECK(train_sample(*source, 1).first == 0);
    CHECK(train_sample(*source, 1).last == 0);
    const Sample last = train_sample(*source, 9);  // The window 32..50 of the second question.
    CHECK(last.first == 4 + 45 - 32);
    CHECK(last.last == last.first);
  }

  TEST_CASE("evaluation has the question, the context and the text of tokens") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *squad_source(job(directory));
    for (std::uint64_t w = 0; w < 5; ++w) {
      const QuestionWindow window = source->question_window(w);
      CHECK(window.question == 0);
      CHECK(window.first == 4);
      CHECK(window.end == 4 + std::min<std::uint32_t>(19, 50 - 8 * w));
      CHECK(window.answers == std::vector<std::string>{"W30"});
      CHECK(source->answer_text(w, 4, 6) == "W" + std::to_string(8 * w) + " W" +
                                                std::to_string(8 * w + 1) + " W" +
                                                std::to_string(8 * w + 2));
      const Sample sample = eval_sample(*source, w);
      if (sample.first > 0) CHECK(source->answer_text(w, sample.first, sample.last) == "W30");
    }
  }

  TEST_CASE("a long question is cut to a third of the tokens") {
    TempDirectory directory;
    write_set(directory);
    const std::string text = words(5);
    write_file(directory / "train-v1.1.json",
               squad(text, question("q", "who who who who who who who who who who who?", "W0", 0)));
    const Sample sample = train_sample(**squad_source(job(directory)), 0);
    CHECK(sample.types[9] == 0);
    CHECK(sample.ids[9] == 3);
    CHECK(sample.types[10] == 1);
    CHECK(sample.length == 1 + 8 + 1 + 5 + 1);
  }

  TEST_CASE("answer_start counts characters, not bytes") {
    CHECK(squad_error(squad("Ünü Öl", question("q", "?", "Öl", 4))).empty());
    CHECK(
        mentions(squad_error(squad("Ünü Öl", question("q", "?", "Öl", 6))),
                 "answer_start is not as it must be: allowed is where the context has the answer"));
  }

  TEST_CASE("an error in the JSON is reported with its place") {
    CHECK(mentions(squad_error("{\"data\": ["), "x.json: no JSON"));
    CHECK(mentions(squad_error("{}"), "x.json: $: data = (missing): allowed is a list"));
    CHECK(mentions(squad_error("[]"), "x.json: $: allowed is an object"));
    CHECK(mentions(squad_error(R"({"data": []})"), "questions = 0"));
    CHECK(mentions(squad_error(R"({"data": [{"paragraphs": [{"context": 3}]}]})"),
                   "$.data[0].paragraphs[0]: context = (number): allowed is a text"));
    const std::string none = R"({"id": "q7", "question": "?", "answers": []})";
    CHECK(mentions(squad_error(squad("c", none)), "qas[0]: answers = (none)"));
    CHECK(mentions(squad_error(squad("c", R"({"id": "q7", "question": "?", "answers":
                   [{"text": "c", "answer_start": -1}]})")),
                   "answers[0]: answer_start = (number)"));
    CHECK(mentions(squad_error("{\"data\": \"\xff\"}"), "no JSON"));
    CHECK(mentions(squad_error(std::string(100'000, '[')),
                   "x.json: depth of the JSON text = 100000: allowed is at most 32"));
    CHECK(read_squad("/nowhere.json").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE(
      "mutated JSON gives questions whose answers are in the context, or an error with the file") {
    std::mt19937_64 random(seed("squad mutations"));
    TempDirectory directory;
    int accepted = 0;
    for (int round = 0; round < 3000; ++round) {
      write_file(directory / "x.json", mutate(train_json(), random));
      const auto read = read_squad(directory / "x.json");
      if (!read.ok()) {
        REQUIRE(mentions(read.error().message, "x.json"));
        continue;
      }
      ++accepted;
      for (const SquadParagraph& paragraph : *read)
        for (const SquadQuestion& q : paragraph.questions)
          for (const SquadAnswer& answer : q.answers)
            REQUIRE(paragraph.context.compare(answer.begin, answer.text.size(), answer.text) == 0);
    }
    CHECK(accepted > 0);
  }

  TEST_CASE("synthetic: the answer follows the key that the question contains") {
    DataSpec spec;
    spec.tokens = 40;
    spec.vocabulary = 120;
    spec.samples = 500;
    spec.eval_samples = 100;
    const auto source = synthetic_question_source(spec);
    constexpr int kKinds = 16;
    std::set<std::int32_t> lengths, kinds;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const Sample sample = train_sample(*source, i);
      CHECK(sample.ids[0] == 2);
      CHECK(sample.ids[2] == 3);
      const std::int32_t kind = sample.ids[1] - 4;
      REQUIRE((kind >= 0 && kind < kKinds));
      const auto key = std::find(sample.ids.begin(), sample.ids.end(), 4 + kKinds + kind);
      REQUIRE(key != sample.ids.end());
      int first = int(key - sample.ids.begin()) + 1, last = first;
      const auto is_answer = [&](std::int32_t id) { return id >= 36 && id < 78; };
      REQUIRE(is_answer(sample.ids[first]));
      while (is_answer(sample.ids[last + 1])) ++last;
      CHECK(sample.first == first);
      CHECK(sample.last == last);
      CHECK(std::count(sample.ids.begin(), sample.ids.end(), *key) == 1);
      lengths.insert(sample.length);
      kinds.insert(kind);
    }
    CHECK(lengths.size() > 10);
    CHECK(kinds.size() == kKinds);
  }

  TEST_CASE("synthetic: evaluation accepts the text of the span, at any size") {
    for (const std::uint32_t tokens : {8u, 9u, 11u, 64u})
      for (const std::uint32_t vocabulary : {16u, 40u, 30'522u}) {
        DataSpec spec;
        spec.tokens = tokens;
        spec.vocabulary = vocabulary;
        spec.samples = spec.eval_samples = 60;
        const auto source = synthetic_question_source(spec);
        for (std::uint64_t i = 0; i < 60; ++i) {
          const Sample sample = eval_sample(*source, i);
          const QuestionWindow window = source->question_window(i);
          CHECK(window.question == i);
          CHECK(std::int32_t(window.end) + 1 == sample.length);
          CHECK(source->answer_text(i, sample.first, sample.last) == window.answers.at(0));
          for (const std::int32_t id : sample.ids) CHECK(id < std::int32_t(vocabulary));
        }
      }
  }
}
