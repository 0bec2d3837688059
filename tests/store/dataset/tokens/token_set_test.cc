#include "store/dataset/tokens/token_set.h"

#include <doctest/doctest.h>

#include "store/dataset/tokens/text_documents.h"
#include "store/dataset/tokens/token_files.h"
#include "store/dataset/tokens/token_summary.h"
#include "tests/store/temp_directory.h"
#include "tests/store/tokenizer/small_tokenizer.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

struct TokenSet {
  test::TempDirectory directory;
  Tokenizer tokenizer =
      *Tokenizer::parse(test::tokenizer_json(test::small_bpe(R"("unk_token": "?")")), "t.json");
  TokenSetRequest request{.out = directory / "out", .shard_tokens = 1024};

  void add(const std::string& name, const std::string& text) {
    test::write_file(directory / name, text);
    request.texts.push_back(directory / name);
  }
  auto write(int parts_max = 1000) const {
    return write_token_set(posix_file_system(), tokenizer, request,
                           [&parts_max](auto, auto) { return --parts_max > 0; });
  }
  std::string error() const {
    const auto written = write();
    REQUIRE(!written.ok());
    return written.error().message;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()));
  }
  TokenSummary summary(bool eval = false) const {
    const auto files = token_files(request.out);
    REQUIRE(files.ok());
    std::vector<TokenShard> shards;
    for (const fs::path& file : eval ? files->eval : files->train)
      shards.push_back(*TokenShard::open(file, NpyType::kU16));
    return **summarize_tokens(shards, 100, 100'000, [](auto) { return true; });
  }
};

std::string times(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

TEST_SUITE("store/dataset/tokens/token_set") {
  TEST_CASE_FIXTURE(TokenSet, "shards have the tokens of all documents in their order") {
    add("1.txt", times(3000, "c"));
    add("2.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"b\"}\n");
    request.appended = 6;
    const auto counts = write();
    REQUIRE(counts.ok());
    CHECK((*counts)->train.documents == 3);
    CHECK((*counts)->train.tokens == 3005);
    CHECK((*counts)->train.shards == 3);
    const TokenSummary found = summary();
    CHECK(found.tokens == 3005);
    CHECK(std::vector(found.first.end() - 6, found.first.end()) ==
          std::vector<std::uint32_t>{2, 6, 3, 6, 1, 6});
    CHECK((*read_token_set_description(request.out))->vocabulary == 10);
  }

  TEST_CASE_FIXTURE(TokenSet, "the evaluation has the end of texts and every n-th line") {
    add("1.txt", times(10, "aaaa\n"));
    add("2.jsonl", times(10, "{\"text\": \"b\"}\n"));
    request.eval_share = 0.2;
    const auto counts = write();
    REQUIRE(counts.ok());
    CHECK((*counts)->eval.tokens == 10 + 2);
    CHECK((*counts)->eval.documents == 1 + 2);
    CHECK(summary(true).largest == 6);
  }

  TEST_CASE_FIXTURE(TokenSet, "a long text is divided between lines and loses nothing") {
    std::string text;
    while (text.size() < 2 * kPartBytesMax + 100) text += "abcabcab\nab \n";
    test::write_file(directory / "long.txt", text);
    std::string joined;
    int parts = 0;
    const auto read = read_documents(directory / "long.txt", "text", ~std::uint64_t{0},
                                     [&](const DocumentPart& part) -> Result<bool> {
                                       ++parts;
                                       joined += part.text;
                                       CHECK(part.last == (joined.size() == text.size()));
                                       CHECK(part.text.ends_with('\n'));
                                       CHECK(part.text.size() <= kPartBytesMax);
                                       return true;
                                     });
    CHECK(read.ok());
    CHECK(parts == 3);
    CHECK(joined == text);
  }

  TEST_CASE_FIXTURE(TokenSet, "nothing stays behind work that was ended or has failed") {
    add("1.txt", "ab");
    add("2.txt", "a\xff");
    CHECK(error().find("2.txt: byte 1 is not UTF-8") != std::string::npos);
    CHECK(entries() == 2);
    test::write_file(directory / "2.txt", "a");
    const auto ended = write(1);
    REQUIRE(ended.ok());
    CHECK(!*ended);
    CHECK(entries() == 2);
    REQUIRE(write().ok());
    CHECK(write().error().kind == ErrorKind::kRefused);
  }

  TEST_CASE_FIXTURE(TokenSet, "a bad line is named") {
    add("1.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n");
    CHECK(error().find("1.jsonl: line 2: \"text\"") != std::string::npos);
    test::write_file(directory / "1.jsonl", "[1]\n");
    CHECK(error().find("1.jsonl: line 1") != std::string::npos);
  }
}

}  // namespace es::store
