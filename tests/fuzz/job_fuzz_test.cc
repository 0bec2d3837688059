// Mutated job files: the reader returns a valid job that is equal after a conversion to the
// canonical text and back, or one error that names the file.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "actors/base/job_file/job_file.h"
#include "tests/fuzz/cost.h"
#include "tests/fuzz/rounds.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/places.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::size_t kAllocationMax = std::size_t{16} << 20;

void check_job(const std::string& text) {
  take_largest_allocation();
  expect_end_within(kSecondsMax);
  const Result<JobSpec> spec = actors::parse_job(text, "job.toml");
  expect_end_within(0);
  REQUIRE(take_largest_allocation() <= kAllocationMax);
  if (!spec.ok()) {
    CAPTURE(spec.error().message);
    REQUIRE(spec.error().kind == ErrorKind::kUsage);
    REQUIRE(spec.error().message.find("job.toml") != std::string::npos);
    REQUIRE(spec.error().message.find('\n') == std::string::npos);
    return;
  }
  REQUIRE(validate(*spec, "job.toml").ok());
  const Result<JobSpec> again = actors::parse_job(actors::to_toml(*spec), "canonical");
  REQUIRE(again.ok());
  REQUIRE(*again == *spec);
}

}  // namespace

TEST_SUITE("fuzz/job") {
  TEST_CASE("mutated job files") {
    std::mt19937_64 random(seed("fuzz job"));
    std::vector<std::string> texts;
    for (const auto& file : files_below(test::source_root() / "configs/jobs"))
      if (file.extension() == ".toml") texts.push_back(read_file(file));
    REQUIRE(texts.size() > 3);
    for (std::size_t i = texts.size(); i-- > 0;)  // The canonical text contains every field.
      if (const auto spec = actors::parse_job(texts[i], "job.toml"); spec.ok())
        texts.push_back(actors::to_toml(*spec));
    const int rounds = fuzz_rounds(3000);
    for (int round = 0; round < rounds; ++round) {
      const std::string text = mutate(texts[random() % texts.size()], random);
      CAPTURE(round);
      CAPTURE(text);
      check_job(text);
    }
  }
}

}  // namespace es::test
