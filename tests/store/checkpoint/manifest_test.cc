#include "store/checkpoint/manifest.h"

#include <doctest/doctest.h>

#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

CheckpointManifest sample() {
  CheckpointManifest manifest;
  manifest.head = {.job_name = "job",
                   .version = 7,
                   .params_digest = {1, 2},
                   .state_digest = {~0ull, 0},
                   .run = "job-1-k3x9w2fa",
                   .written_unix_ms = 1'700'000'000'123};
  manifest.job_toml_bytes = 20;
  manifest.job_toml_digest = {5, 6};
  manifest.sections = {{"parameters", (1 << 20) + 1, {{7, 8}, {9, 10}}},
                       {"context/0", 0, {}},
                       {"context/1", 3, {{11, 12}}}};
  return manifest;
}

// The text with a correct digest in its last line, with any other errors.
std::string sealed(const std::string& body) {
  return body + "end " + digest_of(body).hex() + "\n";
}

std::string body_of(const std::string& text) {
  return text.substr(0, text.rfind("end "));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_SUITE("store/checkpoint/manifest") {
  TEST_CASE("the text is the one that FORMAT.md shows") {
    const std::string expected =
        "easyscale-checkpoint 5\n"
        "job_name job\n"
        "run job-1-k3x9w2fa\n"
        "written_unix_ms 1700000000123\n"
        "version 7\n"
        "params_digest 00000000000000010000000000000002\n"
        "state_digest ffffffffffffffff0000000000000000\n"
        "block_bytes 1048576\n"
        "job_toml 20 00000000000000050000000000000006\n"
        "sections 3\n"
        "section parameters 1048577\n"
        "block 00000000000000070000000000000008\n"
        "block 0000000000000009000000000000000a\n"
        "section context/0 0\n"
        "section context/1 3\n"
        "block 000000000000000b000000000000000c\n";
    CHECK(encode_manifest(sample()) == sealed(expected));
  }

  TEST_CASE("decoding is the inverse of encoding") {
    const auto decoded = decode_manifest(encode_manifest(sample()), "m");
    REQUIRE(decoded.ok());
    CHECK(*decoded == sample());
    CHECK(decoded->data_bytes() == (1 << 20) + 4);
  }

  TEST_CASE("an unknown format version is named with the one that is allowed") {
    const auto decoded =
        decode_manifest(replaced(encode_manifest(sample()), "checkpoint 5", "checkpoint 2"), "m");
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.error().message == "m: format version = \"2\": allowed is 3 to 5");
  }

  TEST_CASE("format 3 is read, and it names neither a run nor a time") {
    std::string body = body_of(encode_manifest(sample()));
    body = replaced(body, "checkpoint 5", "checkpoint 3");
    body = replaced(body, "run job-1-k3x9w2fa\nwritten_unix_ms 1700000000123\n", "");
    const auto decoded = decode_manifest(sealed(body), "m");
    REQUIRE(decoded.ok());
    CHECK(decoded->format == 3);
    CHECK(decoded->head.run.empty());
    CHECK(decoded->head.written_unix_ms == 0);
    CHECK(encode_manifest(*decoded) == sealed(body));
    CHECK_FALSE(decode_manifest(sealed(replaced(body, "checkpoint 3", "checkpoint 5")), "m").ok());
  }

  TEST_CASE("each changed byte and each cut is found") {
    const std::string text = encode_manifest(sample());
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string changed = text;
      changed[i] ^= 0x20;
      CHECK_FALSE(decode_manifest(changed, "m").ok());
      CHECK_FALSE(decode_manifest(text.substr(0, i), "m").ok());
    }
  }

  TEST_CASE("fields that are not allowed are refused, even with a correct digest") {
    const std::string body = body_of(encode_manifest(sample()));
    const std::pair<const char*, const char*> changes[] = {
        {"job_name job", "job_name j/b"},
        {"job_name job\n", ""},
        {"run job-1", "run job/1"},
        {"run job-1-k3x9w2fa\n", ""},
        {"written_unix_ms 17", "written_unix_ms 017"},
        {"version 7", "version 07"},
        {"version 7", "version -7"},
        {"version 7", "version 99999999999999999999"},
        {"block_bytes 1048576", "block_bytes 4096"},
        {"job_toml 20 ", "job_toml 20"},
        {"job_toml 20", "job_toml 99999999"},
        {"sections 3", "sections 2"},
        {"sections 3", "sections 18446744073709551615"},
        {"context/1", "context/0"},
        {"context/0 0", "context/0 1"},
        {"parameters 1048577", "parameters 18446744073709551615"},
        {"section context/0 0", "section context/0"},
        {"0000000b", "0000000B"},
    };
    for (const auto& [from, to] : changes) {
      CAPTURE(to);
      CHECK_FALSE(decode_manifest(sealed(replaced(body, from, to)), "m").ok());
    }
    CHECK_FALSE(decode_manifest(sealed(body + "more\n"), "m").ok());
    CHECK(decode_manifest(sealed(body), "m").ok());
  }

  TEST_CASE("ten thousand mutated manifests give an error, or encode to the same text") {
    std::mt19937_64 random(seed("manifest mutations"));
    const std::string text = encode_manifest(sample());
    for (int round = 0; round < 10'000; ++round) {
      const bool reseal = random() % 2 == 0;
      const std::string changed =
          reseal ? sealed(mutate(body_of(text), random)) : mutate(text, random);
      const auto decoded = decode_manifest(changed, "m");
      if (decoded.ok())
        REQUIRE(encode_manifest(*decoded) == changed);
      else
        REQUIRE(decoded.error().message.starts_with("m: "));
    }
  }
}
