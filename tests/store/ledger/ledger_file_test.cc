#include "store/ledger/ledger_file.h"

#include <doctest/doctest.h>

#include <bit>
#include <sstream>

#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

LedgerFile sample() {
  LedgerFile file;
  file.job = "cnn-1";
  file.spec = {1, 2};
  file.placements = "cpu-avx2:2@2";
  file.from = "/data/a checkpoint";
  file.spec_toml = "name = \"cnn\"\n\n[model]\nname = \"small_cnn\"\n";
  file.lines = {{1, {2.5f, -0.0f}, Digest{3, 4}},
                {2, {std::bit_cast<float>(0x7fc00001u), 1e-40f}, std::nullopt}};
  return file;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The same lines with correct checks, with any other errors.
std::string sealed(const std::string& text) {
  std::string check;
  std::string result;
  for (const std::string& line : lines_of(text)) {
    const std::string content = line.substr(0, line.rfind(" #"));
    check = digest_of(check + content + "\n").hex().substr(0, 16);
    result += content + " #" + check + "\n";
  }
  return result;
}

// The number in "x.ledger, line N: ...".
std::size_t line_in(const std::string& message) {
  const std::string before = "x.ledger, line ";
  REQUIRE(message.starts_with(before));
  return std::stoul(message.substr(before.size()));
}

std::string error_of(const std::string& text) {
  const auto decoded = decode_ledger_file(text, "x.ledger");
  REQUIRE_FALSE(decoded.ok());
  CHECK(decoded.error().kind == ErrorKind::kUsage);
  return decoded.error().message;
}

}  // namespace

TEST_SUITE("store/ledger/ledger_file") {
  TEST_CASE("lines that were written are read back, bit by bit") {
    const LedgerFile file = sample();
    const auto back = decode_ledger_file(encode_ledger_file(file), "x.ledger");
    REQUIRE(back.ok());
    CHECK(back->job == file.job);
    CHECK(back->spec == file.spec);
    CHECK(back->placements == file.placements);
    CHECK(back->from == file.from);
    CHECK(back->checkpoint.empty());
    CHECK(back->spec_toml == file.spec_toml);
    REQUIRE(back->lines.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(back->lines[i], file.lines[i]));
  }

  TEST_CASE("a ledger without lines is valid") {
    LedgerFile file = sample();
    file.lines.clear();
    CHECK(decode_ledger_file(encode_ledger_file(file), "x")->lines.empty());
  }

  TEST_CASE("an error names the wrong line") {
    const std::string text = encode_ledger_file(sample());
    REQUIRE(sealed(text) == text);
    CHECK(error_of("").find("line 0") != std::string::npos);
    CHECK(error_of("easyscale-ledger 1\n").find("x.ledger, line 1") != std::string::npos);
    CHECK(error_of("easyscale-ledger 2\njob j\n").find("format version = 2: allowed is 3") !=
          std::string::npos);
    CHECK(error_of(text.substr(0, text.rfind("end"))).find("end 2") != std::string::npos);
    CHECK(error_of(sealed(text + "3 -\n")).find("end 2, at the end") != std::string::npos);
    std::string cut = text;
    cut.erase(cut.find(" 80000000"), 9);
    CHECK(error_of(sealed(cut)).find("2 losses of 8 hexadecimal digits") != std::string::npos);
    std::string twice = text;
    twice.replace(twice.find("\n2 -"), 4, "\n1 -");
    CHECK(error_of(sealed(twice)).find("versions ascending") != std::string::npos);
  }

  TEST_CASE("every flipped bit and every changed byte is found, in its line") {
    const std::string text = encode_ledger_file(sample());
    std::size_t line = 1;
    for (std::size_t at = 0; at < text.size(); ++at) {
      CAPTURE(at);
      for (int change = 1; change < 256; ++change) {
        std::string damaged = text;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        REQUIRE(line_in(error_of(damaged)) == line);
      }
      if (text[at] == '\n') ++line;
    }
  }

  TEST_CASE("a file that is cut or extended is refused") {
    const std::string text = encode_ledger_file(sample());
    for (std::size_t bytes = 0; bytes < text.size(); ++bytes) error_of(text.substr(0, bytes));
    for (const char* more : {"\n", " ", "x", "end 2\n"}) error_of(text + more);
    error_of(text + text);
  }

  TEST_CASE("a line that is missing, repeated or moved is found at its place") {
    const std::vector<std::string> lines = lines_of(encode_ledger_file(sample()));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(lines[i]);
      std::vector<std::string> missing = lines;
      missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(line_in(error_of(text_of(missing))) == std::min(i + 1, lines.size() - 1));
      std::vector<std::string> twice = lines;
      twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
      const std::size_t end = i + 1 == lines.size() ? i + 1 : i + 2;
      CHECK(line_in(error_of(text_of(twice))) == end);
      for (std::size_t k = i + 1; k < lines.size(); ++k) {
        std::vector<std::string> swapped = lines;
        std::swap(swapped[i], swapped[k]);
        CHECK(line_in(error_of(text_of(swapped))) == i + 1);
      }
    }
  }

  TEST_CASE("ten thousand mutated files give an error, or a ledger whose text is the file") {
    std::mt19937_64 random(seed("ledger file mutations"));
    const std::string text = encode_ledger_file(sample());
    for (int round = 0; round < 10'000; ++round) {
      const auto decoded = decode_ledger_file(mutate(text, random), "x");
      if (!decoded.ok()) continue;
      const std::string again = encode_ledger_file(*decoded);
      REQUIRE(encode_ledger_file(*decode_ledger_file(again, "x")) == again);
    }
  }
}
