#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <bit>
#include <fstream>
#include <numeric>
#include <thread>

#include "store/metrics/metric.h"
#include "store/path_roots.h"
#include "tests/store/temp_directory.h"
#include "tests/support/places.h"

namespace es::store {
namespace {

CapturedInputs inputs_of_fake() {
  return {.inputs = {{{.name = "x", .channels = 2}, ValueType::kF32, {2}},
                     {{.name = "label", .type = FieldType::kI32, .low = -100, .high = 2},
                      ValueType::kI32,
                      {}}},
          .predicts_label = true};
}

// A job whose interpreter is fake_loader, with what its file says.
struct FakeDataset {
  test::TempDirectory directory;
  JobSpec spec;
  CapturedInputs inputs = inputs_of_fake();

  explicit FakeDataset(const std::string& behaviour) {
    spec.model.file = "net.esmodel";
    spec.batch_size = 4;
    spec.data = {.kind = "python",
                 .path = (directory / "data").string(),
                 .samples = 12,
                 .eval_samples = 5,
                 .python = test::program_beside("fake_loader").string(),
                 .timeout_s = 60};
    test::write_file(spec.data.path, behaviour);
  }
  std::string counter() const { return (directory / "ends").string(); }
  void behave(const std::string& behaviour) const { test::write_file(spec.data.path, behaviour); }
  std::shared_ptr<const SampleSource> source() const {
    auto source = open_samples(spec, &inputs);
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    return *std::move(source);
  }
};

using Words = std::vector<float>;

Words train_words(const SampleSource& source, std::uint64_t epoch,
                  const std::vector<std::uint64_t>& samples) {
  Words words(samples.size() * static_cast<std::size_t>(source.layout().words()));
  const Status filled = source.fill_train(epoch, samples, words);
  REQUIRE_MESSAGE(filled.ok(), (filled.ok() ? "" : filled.error().message));
  return words;
}

// The samples 0 to 11 of epoch 2 in three requests.
Words all_words() {
  Words words;
  for (std::uint64_t i = 0; i < 12; ++i) {
    words.push_back(static_cast<float>(2000 + i));
    words.push_back(0.5F);
  }
  for (std::uint64_t i = 0; i < 12; ++i)
    words.push_back(std::bit_cast<float>(static_cast<std::int32_t>(i % 3)));
  return words;
}

std::vector<std::uint64_t> all_samples() {
  std::vector<std::uint64_t> samples(12);
  std::iota(samples.begin(), samples.end(), std::uint64_t{0});
  return samples;
}

std::string train_error(const SampleSource& source) {
  Words words(12 * static_cast<std::size_t>(source.layout().words()));
  const Status filled = source.fill_train(2, all_samples(), words);
  REQUIRE_FALSE(filled.ok());
  CHECK(filled.error().kind == ErrorKind::kUsage);
  return filled.error().message;
}

void check_error(const FakeDataset& dataset, const std::vector<std::string>& parts) {
  const std::string error = train_error(*dataset.source());
  CAPTURE(error);
  for (const std::string& part : parts) CHECK(error.find(part) != std::string::npos);
}

}  // namespace

TEST_SUITE("store/dataset/python/source") {
  TEST_CASE("samples come from loader processes, the last evaluation sample is repeated") {
    const FakeDataset dataset("normal");
    const auto source = dataset.source();
    CHECK(train_words(*source, 2, all_samples()) == all_words());
    Words words(12);
    REQUIRE(source->fill_eval(3, 2, 4, words).ok());
    CHECK(Words(words.begin(), words.begin() + 8) == Words{3, 0.5F, 4, 0.5F, 4, 0.5F, 4, 0.5F});
    CHECK(source->true_label(3) == 0);
    CHECK(source->true_label(4) == 1);
  }

  TEST_CASE("threads that fill at the same time get the same samples") {
    const FakeDataset dataset("normal");
    const auto source = dataset.source();
    std::vector<Words> found(4);
    {
      std::vector<std::jthread> threads;
      for (Words& words : found)
        threads.emplace_back([&] { words = train_words(*source, 2, all_samples()); });
    }
    for (const Words& words : found) CHECK(words == all_words());
    // The processes stay although the threads that have used them have ended.
    CHECK(train_words(*source, 2, all_samples()) == all_words());
  }

  TEST_CASE("a process that ends is replaced, and no bit changes") {
    for (const char* code : {"3", "-9", "-11"}) {
      const FakeDataset dataset("");
      dataset.behave("ends " + dataset.counter() + " 3 6 " + code);
      CHECK(train_words(*dataset.source(), 2, all_samples()) == all_words());
      CHECK(test::read_file(dataset.counter()) == "xxx");
    }
    const FakeDataset dataset("");
    dataset.behave("ends_first " + dataset.counter() + " 3");
    CHECK(train_words(*dataset.source(), 2, all_samples()) == all_words());
  }

  TEST_CASE("a sample that always ends its process is an error with its number") {
    FakeDataset dataset("");
    dataset.behave("ends " + dataset.counter() + " 1000 6 3");
    check_error(dataset, {"training sample 6 of " + dataset.spec.data.path, "exit code 3",
                          "as 3 before it"});
    dataset.behave("ends " + dataset.counter() + " 1000 7 -9");
    check_error(dataset, {"training sample 7 of ", "was ended by signal 9"});
    dataset.behave("closes 5");
    check_error(dataset, {"training sample 5 of ", "has closed its socket"});
    dataset.behave("ends_first " + dataset.counter() + " 1000");
    check_error(dataset, {"the dataset cannot be loaded", "exit code 5; it needs the package"});
    dataset.spec.data.python = "/no/such/python";
    check_error(dataset, {"/no/such/python, could not be started"});
  }

  TEST_CASE("a sample that takes too long is an error with its number and the limit") {
    FakeDataset dataset("silent 9");
    dataset.spec.data.timeout_s = 1;
    check_error(dataset,
                {"training sample 9 of ", "not answered within 1 s", "data.timeout_s = 1"});
  }

  TEST_CASE("a value outside of the range of its input names sample, input and element") {
    const FakeDataset dataset("label 10 3");
    check_error(dataset, {"training sample 10 of ", "input \"label\": element 0", "-100 to 2"});
  }

  TEST_CASE("a dataset with another length than the job says is an error") {
    check_error(FakeDataset("longer"),
                {"data.samples = 12: allowed is 13, the length of the dataset"});
  }

  TEST_CASE("the digest of the file belongs to the job") {
    FakeDataset dataset("normal");
    const auto facts = data_facts(dataset.spec, &dataset.inputs);
    REQUIRE(facts.ok());
    CHECK(facts->train_count == 12);
    CHECK(facts->eval_count == 5);
    CHECK(facts->path_digest == digest_of(std::string_view("normal")).hex());
    dataset.spec.data.path_digest = facts->path_digest;
    CHECK(open_samples(dataset.spec, &dataset.inputs).ok());
    dataset.behave("longer");
    const auto changed = open_samples(dataset.spec, &dataset.inputs);
    REQUIRE_FALSE(changed.ok());
    CHECK(changed.error().message.find("digest = ") != std::string::npos);
    dataset.spec.data.path += ".gone";
    CHECK(open_samples(dataset.spec, &dataset.inputs).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("no interpreter is started for a client that may name no program") {
    const FakeDataset dataset("normal");
    PathRoots roots;
    roots.programs = false;
    const ConfinedThread confined(roots);
    const auto source = open_samples(dataset.spec, &dataset.inputs);
    REQUIRE_FALSE(source.ok());
    CHECK(source.error().kind == ErrorKind::kRefused);
    CHECK(source.error().message.find("--python-data") != std::string::npos);
  }

  TEST_CASE("an accuracy is counted unless the loss ignores a label") {
    for (const bool ignores : {false, true}) {
      const FakeDataset dataset(ignores ? "label 4 -100" : "normal");
      const auto source = dataset.source();
      const auto sink = MetricSink::create(dataset.spec, source);
      Words words(5 * 3);
      REQUIRE(source->fill_eval(0, 5, 5, words).ok());
      // The labels are 0, 1, 2, 0, 1, and class 0 is predicted.
      Words logits;
      for (int i = 0; i < 5; ++i) logits.insert(logits.end(), {1.0F, 0.0F, 0.0F});
      const std::vector<double> losses(5, 0.0), weights(5, 1.0);
      const std::span<const float> output(logits);
      sink->add(0, 5, std::span(&output, 1), losses, weights);
      const auto metrics = summarise(Task::kCaptured, sink->totals());
      CHECK(metrics.size() == (ignores ? 1 : 2));
      if (!ignores) CHECK(metrics.front().value == 0.4);
    }
  }
}

}  // namespace es::store
