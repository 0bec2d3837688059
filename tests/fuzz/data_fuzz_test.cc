// Every file of a small data set of every kind, mutated. For any input a reader returns samples
// that agree with their layout, or one error that names the file, in bounded memory.
#include <doctest/doctest.h>

#include <bit>
#include <random>

#include "store/dataset/sample_source.h"
#include "tests/fuzz/cost.h"
#include "tests/fuzz/rounds.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

namespace fs = std::filesystem;
using store::SampleSource;

// Seconds for one input. The limit finds a hang and does not measure speed.
constexpr unsigned kSecondsMax = 60;
// A header may promise a whole image (kImagePixelsMax, three bytes each), which is then decoded row
// by row. All other memory is proportional to the number of bytes in the file.
constexpr std::size_t kAllocationMax = std::size_t{3} * (64 << 20) + 4096;

// Checks that words which are integers lie within the range of their field.
void check_ranges(const SampleLayout& layout, const std::vector<float>& words) {
  std::size_t at = 0;
  for (const SampleField& field : layout.fields)
    for (std::int64_t i = 0; i < field.words(); ++i, ++at) {
      if (field.type != FieldType::kI32) continue;
      const auto value = std::bit_cast<std::int32_t>(words[at]);
      REQUIRE(value >= field.low);
      REQUIRE(value <= field.high);
    }
}

// Reads all samples. Returns the error of the first one that cannot be read, or nothing.
std::string read_all(const SampleSource& source) {
  std::vector<float> words(static_cast<std::size_t>(source.layout().words()));
  for (std::uint64_t i = 0; i < source.train_count(); ++i) {
    const Status filled = source.fill_train(0, std::span(&i, 1), words);
    if (!filled.ok()) return filled.error().message;
    check_ranges(source.layout(), words);
  }
  for (std::uint64_t i = 0; i < source.eval_count(); ++i) {
    const Status filled = source.fill_eval(i, 1, 1, words);
    if (!filled.ok()) return filled.error().message;
    check_ranges(source.layout(), words);
  }
  return {};
}

// Returns the error of the data, or nothing. Reading the facts succeeds whenever opening does, and
// gives the same facts.
std::string error_of(const JobSpec& spec) {
  const auto facts = store::data_facts(spec, inputs_of(spec));
  const auto source = store::open_samples(spec, inputs_of(spec));
  if (!source.ok()) return source.error().message;
  REQUIRE(facts.ok());
  REQUIRE(facts->layout == (*source)->layout());
  REQUIRE(facts->train_count == (*source)->train_count());
  REQUIRE(facts->eval_count == (*source)->eval_count());
  return read_all(**source);
}

// Errors about two files, or about none, may name another file or the directory.
bool names_place(const std::string& error, const JobSpec& spec) {
  return error.find(spec.data.path) != std::string::npos;
}

void mutate_kind(const std::string& kind, int usual_rounds) {
  std::mt19937_64 random(seed(("fuzz " + kind).c_str()));
  TempDirectory directory;
  JobSpec spec;
  for (const JobSpec& job : write_every_kind(directory.path()))
    if (job.data.kind == kind) spec = job;
  REQUIRE(error_of(spec).empty());
  const std::vector<fs::path> files = files_below(spec.data.path);
  const int rounds = fuzz_rounds(usual_rounds);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const fs::path& file = files[random() % files.size()];
    const std::string whole = read_file(file);
    write_file(file, mutate(whole, random));
    take_largest_allocation();
    expect_end_within(kSecondsMax);
    const std::string error = error_of(spec);
    expect_end_within(0);
    CAPTURE(round);
    CAPTURE(file.string());
    CAPTURE(error);
    REQUIRE(take_largest_allocation() <= kAllocationMax);
    if (!error.empty()) REQUIRE(names_place(error, spec));
    if (!error.empty()) REQUIRE(error.find('\n') == std::string::npos);
    accepted += error.empty();
    write_file(file, whole);
  }
  MESSAGE(kind << ": " << rounds << " mutated files, " << accepted << " still read");
}

}  // namespace

TEST_SUITE("fuzz/data") {
  TEST_CASE("mutated IDX files") {
    mutate_kind("idx", 1500);
  }
  TEST_CASE("mutated CIFAR-10 files") {
    mutate_kind("cifar10", 300);
  }
  TEST_CASE("mutated image folders") {
    mutate_kind("image_folder", 1500);
  }
  TEST_CASE("mutated ratings") {
    mutate_kind("ratings", 1000);
  }
  TEST_CASE("mutated SQuAD files and vocabularies") {
    mutate_kind("squad", 1000);
  }
  TEST_CASE("mutated VOC sets") {
    mutate_kind("voc", 1000);
  }
  TEST_CASE("mutated NumPy arrays") {
    mutate_kind("arrays", 1500);
  }
  TEST_CASE("mutated tar files") {
    mutate_kind("webdataset", 1500);
  }
  TEST_CASE("mutated token files") {
    mutate_kind("tokens", 1500);
  }
}

}  // namespace es::test
