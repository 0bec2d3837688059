// Texts that are nested deeper than any stack: every format that is parsed here as a tree, at
// random depths, closed or cut off, gives one error that names the file. A parser or a destructor
// that recursed for each level would end the process.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "actors/base/job_file/job_file.h"
#include "store/dataset/boxes/voc_reader.h"
#include "store/dataset/questions/squad_reader.h"
#include "store/model_file/model_json.h"
#include "store/safetensors/safetensors.h"
#include "tests/fuzz/cost.h"
#include "tests/fuzz/rounds.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::size_t kAllocationMax = std::size_t{64} << 20;
constexpr std::size_t kDepthMax = 400'000;

struct Brackets {
  const char* open;
  const char* close;
};

std::string nested(const Brackets& brackets, std::size_t levels, bool closed) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) text += brackets.open;
  for (std::size_t i = 0; closed && i < levels; ++i) text += brackets.close;
  return text;
}

std::size_t random_depth(std::mt19937_64& random) {
  return std::size_t{40} << random() % 14 << random() % 2;
}

// `read` gets a text and returns the message of its error.
void check(const char* name, const std::vector<Brackets>& kinds, const std::string& before,
           const std::string& after, const std::function<std::string(const std::string&)>& read) {
  std::mt19937_64 random(seed((std::string("depth ") + name).c_str()));
  const int rounds = fuzz_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    const Brackets& brackets = kinds[random() % kinds.size()];
    const std::size_t levels = std::min(random_depth(random), kDepthMax);
    const bool closed = random() % 2 == 0;
    CAPTURE(name);
    CAPTURE(round);
    CAPTURE(brackets.open);
    CAPTURE(levels);
    CAPTURE(closed);
    const std::string text = before + nested(brackets, levels, closed) + (closed ? after : "");
    take_largest_allocation();
    expect_end_within(kSecondsMax);
    const std::string error = read(text);
    expect_end_within(0);
    CAPTURE(error);
    REQUIRE(take_largest_allocation() <= kAllocationMax);
    REQUIRE(error.find("text.file") != std::string::npos);
    REQUIRE(error.find('\n') == std::string::npos);
    REQUIRE(error.size() < 500);
  }
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "accepted" : result.error().message;
}

}  // namespace

TEST_SUITE("fuzz/depth") {
  TEST_CASE("TOML of a job") {
    const auto read = [](const std::string& text) {
      return message_of(actors::parse_job(text, "text.file"));
    };
    check("values", {{"[", "]"}, {"{a=", "}"}, {"[[", "]]"}, {"[{a=", "}]"}, {"[1,", "]"}},
          "steps = 1\nname = ", "\n", read);
    check("keys", {{"a.", ""}, {"'a'.", ""}, {"\"a\" . ", ""}}, "steps = 1\n", "a = 1\n", read);
    check("headers", {{"a.", ""}, {"'a'.", ""}}, "[", "a]\n", read);
    check("lists of tables", {{"a.", ""}}, "[[", "a]]\n", read);
  }
  TEST_CASE("SQuAD's JSON") {
    TempDirectory directory;
    check("squad", {{"[", "]"}, {"{\"data\":", "}"}, {"[1,", "]"}, {"[{\"a\":", "}]"}},
          "{\"data\": ", "}", [&](const std::string& text) {
            write_file(directory / "text.file", text);
            return message_of(store::read_squad(directory / "text.file"));
          });
  }
  TEST_CASE("the header of safetensors") {
    TempDirectory directory;
    check("safetensors", {{"[", "]"}, {"{\"a\":", "}"}}, "{\"w\": ", "}",
          [&](const std::string& text) {
            std::string bytes(8, '\0');
            for (std::size_t i = 0; i < 8; ++i)
              bytes[i] = static_cast<char>(text.size() >> (8 * i));
            write_file(directory / "text.file", bytes + text);
            return message_of(store::SafetensorsFile::open(directory / "text.file"));
          });
  }
  TEST_CASE("the JSON form of a model") {
    check("model", {{"[", "]"}, {"{\"values\":", "}"}, {"[1,", "]"}}, "{\"nodes\": ", "}",
          [](const std::string& text) {
            return message_of(store::model_from_json(text, "text.file"));
          });
  }
  TEST_CASE("a VOC annotation") {
    check("voc",
          {{"<a>", "</a>"},
           {"<object>", "</object>"},
           {"<annotation><size>", "</size></annotation>"}},
          "<annotation>", "</annotation>", [](const std::string& text) {
            return message_of(store::parse_voc_annotation(text, "text.file", {"dog"}));
          });
  }
}

}  // namespace es::test
