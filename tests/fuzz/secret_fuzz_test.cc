// No error of a reader repeats the content of a file, because the user who names a file may not be
// allowed to read it. In every file of a small data set of every kind a secret replaces or extends
// the content.
#include <doctest/doctest.h>

#include <cctype>
#include <random>

#include "store/dataset/sample_source.h"
#include "tests/fuzz/rounds.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWord = "hunter2secret";
constexpr const char* kNumber = "918273645";

// Returns the error of reading all samples, or nothing.
std::string error_of(const JobSpec& spec) {
  const auto source = store::open_samples(spec, inputs_of(spec));
  if (!source.ok()) return source.error().message;
  std::vector<float> words(static_cast<std::size_t>((*source)->layout().words()));
  for (std::uint64_t i = 0; i < (*source)->train_count(); ++i) {
    const Status filled = (*source)->fill_train(0, std::span(&i, 1), words);
    if (!filled.ok()) return filled.error().message;
  }
  for (std::uint64_t i = 0; i < (*source)->eval_count(); ++i) {
    const Status filled = (*source)->fill_eval(i, 1, 1, words);
    if (!filled.ok()) return filled.error().message;
  }
  return {};
}

// The secret as a text, and as the numbers that a reader may parse from its bytes.
std::vector<std::string> forms() {
  std::vector<std::string> all{kWord, std::string(kWord).substr(0, 4), kNumber, "36bbbe6d"};
  std::uint64_t big = 0, little = 0;
  for (int i = 0; i < 4; ++i) big = big << 8 | static_cast<unsigned char>(kWord[i]);
  for (int i = 8; i-- > 0;) little = little << 8 | static_cast<unsigned char>(kWord[i]);
  all.insert(all.end(), {std::to_string(big), std::to_string(little), "68756e74"});
  return all;
}

// The whole file, a line, a part between two bytes, or the text between two equal marks.
std::string with_secret(std::string bytes, std::mt19937_64& random) {
  const std::string secret = random() % 2 == 0 ? kWord : kNumber;
  const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
  switch (random() % 4) {
    case 0:
      return secret + "\n" + secret + " " + kNumber + "\n";
    case 1: {
      const std::size_t line = bytes.find('\n', at);
      return bytes.insert(line == std::string::npos ? at : line + 1, secret + "\n");
    }
    case 2:
      return bytes.insert(at, secret);
    default: {
      std::size_t begin = at, end = at;
      const auto is_part = [&](std::size_t i) {
        return std::isalnum(static_cast<unsigned char>(bytes[i])) != 0;
      };
      while (begin > 0 && is_part(begin - 1)) --begin;
      while (end < bytes.size() && is_part(end)) ++end;
      return bytes.replace(begin, end - begin, secret);
    }
  }
}

}  // namespace

TEST_SUITE("fuzz/secret") {
  TEST_CASE("an error about a file never contains text of the file") {
    std::mt19937_64 random(seed("fuzz secret"));
    TempDirectory directory;
    for (const JobSpec& spec : write_every_kind(directory.path())) {
      REQUIRE(error_of(spec).empty());
      const std::vector<fs::path> files = files_below(spec.data.path);
      const int rounds = fuzz_rounds(1200);
      int refused = 0;
      for (int round = 0; round < rounds; ++round) {
        const fs::path& file = files[random() % files.size()];
        const std::string whole = read_file(file);
        write_file(file, with_secret(whole, random));
        const std::string error = error_of(spec);
        refused += !error.empty();
        for (const std::string& form : forms()) {
          CAPTURE(file.string());
          CAPTURE(error);
          REQUIRE(error.find(form) == std::string::npos);
        }
        write_file(file, whole);
      }
      CHECK(refused > rounds / 20);
    }
  }
}

}  // namespace es::test
