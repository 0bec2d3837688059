#include "store/tokenizer/tokenizer.h"

#include <doctest/doctest.h>

#include <random>

#include "store/tokenizer/byte_level.h"
#include "tests/store/mutate.h"
#include "tests/store/tokenizer/small_tokenizer.h"
#include "tests/support/seed.h"

namespace es::store {
namespace {

using test::small_bpe;
using test::small_unigram;
using test::small_word_piece;
using test::tokenizer_json;
using Ids = std::vector<std::uint32_t>;

constexpr const char* kFile = "dir/tokenizer.json";

Tokenizer parsed(const std::string& json) {
  auto tokenizer = Tokenizer::parse(json, kFile);
  REQUIRE_MESSAGE(tokenizer.ok(), (tokenizer.ok() ? "" : tokenizer.error().message));
  return *std::move(tokenizer);
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text, bool surround = false) {
  WordCache cache;
  Ids ids, again;
  REQUIRE(tokenizer.encode(text, surround, cache, ids).ok());
  REQUIRE(tokenizer.encode(text, surround, cache, again).ok());  // now from the cache
  CHECK(ids == again);
  return ids;
}

std::string parse_error(const std::string& json) {
  const auto tokenizer = Tokenizer::parse(json, kFile);
  REQUIRE(!tokenizer.ok());
  CHECK(tokenizer.error().kind == ErrorKind::kUsage);
  CHECK(tokenizer.error().message.starts_with(kFile));
  return tokenizer.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string added(const std::string& content, const std::string& flags) {
  return R"("added_tokens": [{"id": 20, "content": ")" + content + R"(", )" + flags + "}]";
}

constexpr const char* kPlainFlags =
    R"("single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    "special": true)";

}  // namespace

TEST_SUITE("store/tokenizer") {
  TEST_CASE("BPE carries out the merge of the lowest rank first") {
    const Tokenizer tokenizer = parsed(tokenizer_json(small_bpe()));
    CHECK(encoded(tokenizer, "ab") == Ids{3});
    // "b c" comes before "a b", and then nothing joins "a" and "bc".
    CHECK(encoded(tokenizer, "abc") == Ids{0, 4});
    CHECK(encoded(tokenizer, "") == Ids{});
    CHECK(tokenizer.size() == 10);
  }

  TEST_CASE("BPE gives a whole token without merges if merges are ignored") {
    CHECK(encoded(parsed(tokenizer_json(small_bpe(R"("ignore_merges": true)"))), "abc") == Ids{5});
  }

  TEST_CASE("BPE gives unknown characters the unknown token, bytes, or nothing") {
    CHECK(encoded(parsed(tokenizer_json(small_bpe())), "axyb") == Ids{3});
    CHECK(encoded(parsed(tokenizer_json(small_bpe(R"("unk_token": "?")"))), "axyb") ==
          Ids{0, 6, 6, 1});
    CHECK(encoded(parsed(tokenizer_json(small_bpe(R"("unk_token": "?", "fuse_unk": true)"))),
                  "axyb") == Ids{0, 6, 1});
    CHECK(encoded(parsed(tokenizer_json(small_bpe(R"("unk_token": "?", "byte_fallback": true)"))),
                  "aéx") == Ids{0, 7, 8, 6});
  }

  TEST_CASE("WordPiece takes the longest piece, or the unknown token for the whole word") {
    const Tokenizer tokenizer = parsed(tokenizer_json(
        small_word_piece(), R"("normalizer": {"type": "BertNormalizer", "clean_text": true,
        "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"})"));
    CHECK(encoded(tokenizer, "Unable. CAFÉ") == Ids{1, 2, 4, 5});
    CHECK(encoded(tokenizer, "unx un漢un") == Ids{0, 1, 6, 1});
    CHECK(encoded(tokenizer, "unaaaaa") == Ids{0});  // seven characters
    CHECK(encoded(tokenizer, "u\x01n") == Ids{1});
  }

  TEST_CASE("Unigram finds the division with the largest score") {
    const Tokenizer tokenizer = parsed(tokenizer_json(
        small_unigram(), R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
        "prepend_scheme": "always", "split": true}, "decoder": {"type": "Metaspace"})"));
    CHECK(encoded(tokenizer, "ab") == Ids{1, 4});  // -5 and not -6 or -6.5
    CHECK(encoded(tokenizer, "axxb") == Ids{5, 0, 3});
    CHECK(*tokenizer.decode(Ids{1, 4, 5}, false) == "ab a");
  }

  TEST_CASE("Unigram without an unknown token ends with an error") {
    WordCache cache;
    Ids ids;
    const Status status =
        parsed(tokenizer_json(small_unigram(R"("unk_id": null)"))).encode("x", false, cache, ids);
    REQUIRE(!status.ok());
    CHECK(has(status.error().message, "unk_id"));
  }

  TEST_CASE("the byte-level alphabet makes every byte a character, and back") {
    const Tokenizer tokenizer =
        parsed(tokenizer_json(small_bpe(), R"("pre_tokenizer": {"type": "ByteLevel",
        "add_prefix_space": true}, "decoder": {"type": "ByteLevel"})"));
    const Ids ids = encoded(tokenizer, "ab ab");
    CHECK(ids == Ids{9, 3, 9, 3});
    CHECK(*tokenizer.decode(ids, false) == " ab ab");
    std::string bytes;
    for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
    CHECK(byte_level_bytes(byte_level_text(bytes)) == bytes);
  }

  TEST_CASE("an added token is found before the model, with its spaces and as a word") {
    const auto ids = [](const char* flags, const char* text) {
      return encoded(parsed(tokenizer_json(small_bpe(), added("<x>", flags))), text);
    };
    CHECK(ids(kPlainFlags, "a<x>b") == Ids{0, 20, 1});
    CHECK(ids(R"("single_word": true, "lstrip": false, "rstrip": false, "normalized": true,
              "special": false)",
              "a<x> <x>") == Ids{0, 20});
    CHECK(encoded(parsed(tokenizer_json(
                      small_bpe(R"("unk_token": "?")"),
                      added("<x>", R"("single_word": false, "lstrip": true, "rstrip": false,
                            "normalized": false, "special": false)"))),
                  "a  <x> b") == Ids{0, 20, 6, 1});
  }

  TEST_CASE("special tokens can be left out when ids are decoded") {
    const Tokenizer tokenizer = parsed(tokenizer_json(small_bpe(), added("<x>", kPlainFlags)));
    CHECK(*tokenizer.decode(Ids{0, 20, 1}, false) == "a <x> b");
    CHECK(*tokenizer.decode(Ids{0, 20, 1}, true) == "a b");
    CHECK(!tokenizer.decode(Ids{21}, false).ok());
  }

  TEST_CASE("the tokens of the post-processor are added on request") {
    const Tokenizer tokenizer = parsed(
        tokenizer_json(small_bpe(), R"("post_processor": {"type": "BertProcessing", "cls": ["?", 6],
        "sep": ["c", 2]})"));
    CHECK(encoded(tokenizer, "a", true) == Ids{6, 0, 2});
    CHECK(encoded(tokenizer, "a") == Ids{0});
  }

  TEST_CASE("normal forms and replacements change the text before it is divided") {
    const auto ids = [](const std::string& normalizer, const char* text) {
      return encoded(
          parsed(tokenizer_json(small_bpe(R"("unk_token": "?")"), "\"normalizer\": " + normalizer)),
          text);
    };
    CHECK(ids(R"({"type": "Lowercase"})", "AB") == Ids{3});
    CHECK(ids(R"({"type": "NFKC"})",
              "\xef\xbd\x81"
              "b") == Ids{3});  // a full-width a
    CHECK(ids(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \t a\n") ==
          Ids{0});
    CHECK(ids(R"({"type": "Replace", "pattern": {"Regex": "x+"}, "content": "a"})", "xxb") ==
          Ids{3});
    CHECK(ids(R"({"type": "Sequence", "normalizers": [{"type": "NFD"},
              {"type": "StripAccents"}]})",
              "áb") == Ids{3});
  }

  TEST_CASE("text that is not UTF-8 is refused with the offset of the byte") {
    WordCache cache;
    Ids ids;
    const Status status = parsed(tokenizer_json(small_bpe())).encode("aé\xff", false, cache, ids);
    REQUIRE(!status.ok());
    CHECK(has(status.error().message, "byte 3"));
  }

  TEST_CASE("unknown parts are refused with the file, the field, the value and what is allowed") {
    CHECK(parse_error("[]") != "");
    std::string error = parse_error(R"({"model": {"type": "WordLevel"}})");
    CHECK(has(error, R"(model.type = "WordLevel": allowed is "BPE", "WordPiece", "Unigram")"));
    error = parse_error(tokenizer_json(
        small_bpe(), R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}]})"));
    CHECK(has(error, R"(normalizer.normalizers[0].type = "Nmt": allowed is "Sequence")"));
    error = parse_error(tokenizer_json(small_bpe(R"("dropout": 0.1)")));
    CHECK(has(error, "model.dropout = 0.1: allowed is null or 0"));
    error = parse_error(
        tokenizer_json(small_bpe(), R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated",
        "pattern": {"Regex": "[a[b]]"}})"));
    CHECK(has(error, "pre_tokenizer.pattern.Regex"));
    error = parse_error(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})");
    CHECK(has(error, R"(model.merges[0] = "a b")"));
  }

  TEST_CASE("mutated files are read, or refused with one line, and encode without a crash") {
    std::mt19937_64 random(test::seed("tokenizer files"));
    const std::string seeds[] = {
        tokenizer_json(small_bpe(R"("unk_token": "?", "byte_fallback": true)"),
                       added("<x>", kPlainFlags) +
                           R"(, "pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                           "invert": false, "pattern": {"Regex": "\\s+(?!\\S)|[^\\s\\p{L}]+"}})"),
        tokenizer_json(small_word_piece(), R"("normalizer": {"type": "BertNormalizer"},
                       "pre_tokenizer": {"type": "BertPreTokenizer"},
                       "decoder": {"type": "WordPiece", "prefix": "##"})"),
        tokenizer_json(small_unigram(), R"("pre_tokenizer": {"type": "Metaspace"},
                       "normalizer": {"type": "Precompiled",
                       "precompiled_charsmap": "CAAAAAABAAAAAAAAYQA="})")};
    int read = 0;
    for (int round = 0; round < 10'000; ++round) {
      CAPTURE(round);
      const auto tokenizer = Tokenizer::parse(test::mutate(seeds[round % 3], random), kFile);
      if (!tokenizer.ok()) {
        REQUIRE(tokenizer.error().message.find('\n') == std::string::npos);
        REQUIRE(tokenizer.error().message.starts_with(kFile));
        continue;
      }
      ++read;
      WordCache cache;
      Ids ids;
      if (tokenizer->encode("un able  <x> aéb漢.", true, cache, ids).ok())
        (void)tokenizer->decode(ids, false);
    }
    MESSAGE(read << " of 10000 mutated files are still read");
  }
}

}  // namespace es::store
