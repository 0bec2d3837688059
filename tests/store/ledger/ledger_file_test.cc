#include "store/ledger/ledger_file.h"

#include <doctest/doctest.h>

#include <bit>

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

std::string error_of(const std::string& text) {
  const auto decoded = decode_ledger_file(text, "x.ledger");
  REQUIRE_FALSE(decoded.ok());
  CHECK(decoded.error().kind == ErrorKind::kUsage);
  return decoded.error().message;
}

}  // namespace

TEST_SUITE("store/ledger/ledger_file") {
  TEST_CASE("what was written comes back, bit by bit") {
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

  TEST_CASE("a ledger without lines is a ledger") {
    LedgerFile file = sample();
    file.lines.clear();
    CHECK(decode_ledger_file(encode_ledger_file(file), "x")->lines.empty());
  }

  TEST_CASE("a wrong line is named") {
    const std::string text = encode_ledger_file(sample());
    CHECK(error_of("").find("line 0") != std::string::npos);
    CHECK(error_of("easyscale-ledger 1\n").find("x.ledger, line 1") != std::string::npos);
    CHECK(error_of(text.substr(0, text.rfind("end"))).find("end 2") != std::string::npos);
    CHECK(error_of(text + "3 -\n").find("end 2, at the end") != std::string::npos);
    std::string cut = text;
    cut.erase(cut.find(" 80000000"), 9);
    CHECK(error_of(cut).find("2 losses of 8 hexadecimal digits") != std::string::npos);
    std::string twice = text;
    twice.replace(twice.find("\n2 -"), 4, "\n1 -");
    CHECK(error_of(twice).find("versions ascending") != std::string::npos);
  }

  TEST_CASE("ten thousand mutated files end in an error or in a ledger that is written so") {
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
