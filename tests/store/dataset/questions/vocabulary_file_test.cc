#include "store/dataset/questions/vocabulary_file.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

const std::vector<std::string> kTokens = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un",  "runn", "##ing",
    ",",     "cafe",  "naive", "東",    "京",   "the",    "##s",  "a",  "##b", "ß",    "й"};

std::string vocabulary() {
  std::string text;
  for (const std::string& token : kTokens) text += token + "\n";
  return text;
}

BertVocabulary pieces() {
  TempDirectory directory;
  write_file(directory / "vocab.txt", vocabulary());
  Result<BertVocabulary> read = BertVocabulary::read(directory / "vocab.txt");
  REQUIRE(read.ok());
  return *std::move(read);
}

// The pieces as text, separated by blanks.
std::string tokenized(const std::string& text) {
  std::string out;
  for (const BertPiece& piece : pieces().pieces(text))
    out += (out.empty() ? "" : " ") + kTokens[piece.id];
  return out;
}

std::string error_of(const std::string& text) {
  TempDirectory directory;
  write_file(directory / "vocab.txt", text);
  const auto read = BertVocabulary::read(directory / "vocab.txt");
  return read.ok() ? "" : read.error().message;
}

}  // namespace

TEST_SUITE("store/dataset/questions/vocabulary_file") {
  // The example of BERT's own tokenization_test.
  TEST_CASE("words are divided greedily, from the longest piece on") {
    CHECK(tokenized("unwanted running") == "un ##want ##ed runn ##ing");
    CHECK(tokenized("unwantedX running") == "[UNK] runn ##ing");
    CHECK(tokenized("") == "");
    CHECK(tokenized("want wanted") == "want want ##ed");
    CHECK(tokenized(std::string(100, 'a')) == "[UNK]");
    CHECK(tokenized("a" + std::string(99, 'b')).size() > 300);
    CHECK(tokenized("a" + std::string(100, 'b')) == "[UNK]");
  }

  TEST_CASE("case and accents are dropped, composed or not") {
    CHECK(tokenized("CAFÉ cafe\xcc\x81 Naïve") == "cafe cafe naive");
    // The letter й loses its mark and becomes и.
    CHECK(tokenized("ẞ ß Й й и\xcc\x86") == "ß ß [UNK] [UNK] [UNK]");
  }

  TEST_CASE(
      "punctuation and Chinese characters are separate words, and control characters are dropped") {
    CHECK(tokenized("want,wanted") == "want , want ##ed");
    CHECK(tokenized("東京want") == "東 京 want");
    CHECK(tokenized("wa\xe2\x80\x8bnt\x01\x02 the\xc2\xa0the\xe3\x80\x80the\nthe\tthe") ==
          "want the the the the the");
    CHECK(tokenized("the\xe2\x80\x94the") == "the [UNK] the");
  }

  TEST_CASE("a piece names the bytes of the text from which it was made") {
    const std::string text = " CAFÉs, unwanted 東";
    std::vector<std::string> parts;
    for (const BertPiece& piece : pieces().pieces(text))
      parts.push_back(text.substr(piece.begin, piece.end - piece.begin));
    CHECK(parts == std::vector<std::string>{"CAFÉ", "s", ",", "un", "want", "ed", "東"});
  }

  TEST_CASE("an unusable vocabulary is refused with the line of the error") {
    CHECK(error_of(vocabulary()).empty());
    CHECK(error_of("[PAD]\n[UNK]\n\n[CLS]\n[SEP]\n")
              .find("vocab.txt: line 3: token is not as it must be") != std::string::npos);
    CHECK(error_of(vocabulary() + "un\n").find("line 23: token is not as it must be") !=
          std::string::npos);
    CHECK(error_of(vocabulary() + "\xff\xfe\n").find("line 23") != std::string::npos);
    CHECK(error_of("[PAD]\n[UNK]\n[SEP]\n").find("without [CLS]") != std::string::npos);
    CHECK(error_of(vocabulary() + std::string(5000, 'x')).find("line 23: length") !=
          std::string::npos);
    const auto missing = BertVocabulary::read("/nowhere/vocab.txt");
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("any bytes give pieces that follow each other") {
    std::mt19937_64 random(seed("texts"));
    const BertVocabulary vocabulary = pieces();
    const std::string text = "The CAFÉ's unwanted, naïve 東京 runners\xe2\x80\x94want";
    for (int round = 0; round < 5000; ++round) {
      const std::string damaged = mutate(text, random);
      std::uint32_t at = 0;
      for (const BertPiece& piece : vocabulary.pieces(damaged)) {
        REQUIRE((piece.id >= 0 && piece.id < std::int32_t(vocabulary.size())));
        REQUIRE((piece.begin >= at && piece.end > piece.begin && piece.end <= damaged.size()));
        at = piece.end;
      }
    }
  }
}
