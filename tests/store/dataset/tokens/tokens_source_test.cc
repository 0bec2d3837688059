#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>

#include "store/path_roots.h"
#include "tests/store/dataset/tokens/token_files.h"
#include "tests/store/temp_directory.h"
#include "tests/support/resident_bytes.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;
using test::npy_data;
using test::npy_file;
using test::npy_literal;
using test::resident_bytes;
using test::token_header;

constexpr std::int32_t kLargest = 4999;

CapturedInput token_input(const std::string& name, std::int64_t length) {
  return {{.name = name, .type = FieldType::kI32, .height = length, .high = kLargest},
          ValueType::kI32,
          {length}};
}

template <class T>
std::vector<T> counted(std::size_t tokens, std::size_t first = 0) {
  std::vector<T> all(tokens);
  for (std::size_t i = 0; i < tokens; ++i) all[i] = static_cast<T>(first + i);
  return all;
}

struct Tokens {
  test::TempDirectory directory;
  JobSpec spec;
  CapturedInputs inputs{.inputs = {token_input("ids", 4), token_input("labels", 4)}};

  Tokens() {
    spec.model.file = "net.esmodel";
    spec.data.kind = "tokens";
    spec.data.path = directory.path().string();
  }
  std::string place(const std::string& file) const { return spec.data.path + "/" + file; }
  void write(const std::string& file, const std::string& bytes) const {
    fs::create_directories(fs::path(place(file)).parent_path());
    test::write_file(place(file), bytes);
  }
  auto open() const { return open_samples(spec, &inputs); }
  std::shared_ptr<const SampleSource> source() const {
    auto source = open();
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    return *std::move(source);
  }
  std::string error() const {
    const auto source = open();
    REQUIRE_FALSE(source.ok());
    return source.error().message;
  }
};

using Numbers = std::vector<std::int32_t>;

Numbers numbers(const std::vector<float>& words) {
  Numbers all;
  for (const float word : words) all.push_back(std::bit_cast<std::int32_t>(word));
  return all;
}

// The ids and then the labels of one sample.
Numbers train_sample(const SampleSource& source, std::uint64_t index) {
  std::vector<float> words(static_cast<std::size_t>(source.layout().words()));
  const Status filled = source.fill_train(0, std::span(&index, 1), words);
  REQUIRE_MESSAGE(filled.ok(), (filled.ok() ? "" : filled.error().message));
  return numbers(words);
}

std::string train_error(const SampleSource& source, std::uint64_t index) {
  std::vector<float> words(static_cast<std::size_t>(source.layout().words()));
  const Status filled = source.fill_train(0, std::span(&index, 1), words);
  REQUIRE_FALSE(filled.ok());
  return filled.error().message;
}

}  // namespace

TEST_SUITE("store/dataset/tokens") {
  TEST_CASE("a sample is a window, and its labels are the tokens one place later") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(13)));
    tokens.write("val.bin", npy_data(counted<std::uint16_t>(5, 100)));
    const auto source = tokens.source();
    CHECK(source->train_count() == 3);
    CHECK(source->eval_count() == 1);
    CHECK(train_sample(*source, 2) == Numbers{8, 9, 10, 11, 9, 10, 11, 12});
    std::vector<float> words(16);
    REQUIRE(source->fill_eval(0, 1, 2, words).ok());
    CHECK(numbers(words) == Numbers{100, 101, 102, 103, 100, 101, 102, 103,  // ids
                                    101, 102, 103, 104, 101, 102, 103, 104});
    CHECK_FALSE(source->has_labels());
  }

  TEST_CASE("the last window needs one token more than its length, unless labels are not shifted") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(12)));
    CHECK(tokens.source()->train_count() == 2);
    tokens.spec.data.shifted = false;
    const auto source = tokens.source();
    CHECK(source->train_count() == 3);
    CHECK(train_sample(*source, 2) == Numbers{8, 9, 10, 11, 8, 9, 10, 11});
    CHECK(source->eval_count() == 0);
  }

  TEST_CASE("every form of a shard gives the same samples") {
    const auto u2 = counted<std::uint16_t>(14);
    const auto u4 = counted<std::uint32_t>(14);
    const auto i4 = counted<std::int32_t>(14);
    const auto i8 = counted<std::int64_t>(14);
    const std::map<std::string, std::string> files = {
        {"a.bin", npy_data(u2)},
        {"b.bin", token_header(20240520, 1, 14) + npy_data(u2)},
        {"c.bin", token_header(20240801, 7, 14) + npy_data(u4)},
        {"d.npy", npy_file(npy_literal("<u2", {14}), npy_data(u2))},
        {"e.npy", npy_file(npy_literal("<u4", {14}), npy_data(u4), 2)},
        {"f.npy", npy_file(npy_literal("<i4", {14}), npy_data(i4))},
        {"g.npy", npy_file(npy_literal("<i8", {14}), npy_data(i8))}};
    Tokens tokens;
    for (const auto& [name, bytes] : files) tokens.write("train/" + name, bytes);
    tokens.write("train/meta.pkl", "no tokens");
    const auto source = tokens.source();
    REQUIRE(source->train_count() == 3 * files.size());
    for (std::uint64_t i = 0; i < source->train_count(); ++i) {
      const auto first = static_cast<std::int32_t>(i % 3 * 4);
      CHECK(train_sample(*source, i)[0] == first);
      CHECK(train_sample(*source, i)[7] == first + 4);
    }
    fs::remove_all(tokens.place("train"));
    tokens.spec.data.token_type = "uint32";
    tokens.write("train/wide.bin", npy_data(u4));
    CHECK(train_sample(*tokens.source(), 2)[7] == 12);
  }

  TEST_CASE("an epoch has every window of every shard once, and short shards have none") {
    Tokens tokens;
    const std::size_t sizes[] = {401, 3, 4, 5, 0, 98, 1000};
    std::map<std::int32_t, int> expected;  // the first tokens of windows
    std::size_t begin = 0;
    for (std::size_t s = 0; s < std::size(sizes); ++s) {
      tokens.write("train/shard_" + std::to_string(s) + ".bin",
                   npy_data(counted<std::uint16_t>(sizes[s], begin)));
      for (std::size_t at = 0; at + 5 <= sizes[s]; at += 4)
        expected[static_cast<std::int32_t>(begin + at)] = 1;
      begin += sizes[s];
    }
    const auto source = tokens.source();
    REQUIRE(source->train_count() == expected.size());
    const std::uint64_t samples = source->train_count() / 6 * 6;
    const auto sampler = EpochSampler::create(
        {.samples = source->train_count(), .max_p = 3, .batch_size = 2, .seed = 7});
    REQUIRE(sampler.ok());
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::map<std::int32_t, int> found;
      Numbers order;
      for (std::uint64_t step = 0; step < samples / 6; ++step)
        for (VirtualRank rank = 0; rank < 3; ++rank) {
          std::vector<float> words(16);
          const DataCursor at = sampler->cursor(epoch * (samples / 6) + step);
          REQUIRE(fill_batch(*source, *sampler, at, rank, words).ok());
          for (const std::size_t first : {0, 4}) {
            const Numbers block = numbers(words);
            ++found[block[first]];
            order.push_back(block[first]);
            CHECK(block[first + 8] == block[first] + 1);
          }
        }
      CHECK(found.size() == samples);
      for (const auto& [first, times] : found) CHECK(times == expected[first]);
      CHECK_FALSE(std::ranges::is_sorted(order));
    }
  }

  TEST_CASE("the inputs of the model have any names and any order") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(9)));
    const std::pair<const char*, const char*> orders[] = {{"labels", "x"}, {"label", "ids"}};
    for (const auto& [first, second] : orders) {
      tokens.inputs.inputs = {token_input(first, 4), token_input(second, 4)};
      CHECK(train_sample(*tokens.source(), 1) == Numbers{5, 6, 7, 8, 4, 5, 6, 7});
    }
    tokens.inputs.inputs = {token_input("x", 4), token_input("y", 4)};
    CHECK(train_sample(*tokens.source(), 1) == Numbers{4, 5, 6, 7, 5, 6, 7, 8});
  }

  TEST_CASE("documents end behind a token, and their positions and segments begin again") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(std::vector<std::uint16_t>{5, 9, 6, 7, 9, 9, 8, 4, 3}));
    tokens.inputs.inputs = {token_input("labels", 8), token_input("position_ids", 8),
                            token_input("ids", 8), token_input("segment_ids", 8)};
    tokens.inputs.inputs[0].field.low = -100;
    const Numbers ids{5, 9, 6, 7, 9, 9, 8, 4};
    const auto sample = [&](std::size_t input) {
      const Numbers all = train_sample(*tokens.source(), 0);
      return Numbers(all.begin() + 8 * input, all.begin() + 8 * (input + 1));
    };
    CHECK(sample(1) == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(sample(3) == Numbers(8, 0));
    tokens.spec.data.document_end = 9;
    CHECK(sample(0) == Numbers{9, -100, 7, 9, -100, -100, 4, 3});
    CHECK(sample(1) == Numbers{0, 1, 0, 1, 2, 0, 0, 1});
    CHECK(sample(2) == ids);
    CHECK(sample(3) == Numbers{0, 0, 1, 1, 1, 2, 3, 3});
    tokens.spec.data.shifted = false;
    CHECK(sample(0) == Numbers{5, 9, -100, 7, 9, -100, -100, 4});
  }

  TEST_CASE("documents need segments, their numbers, and a loss that ignores labels") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(9)));
    tokens.spec.data.document_end = 3;
    CHECK(tokens.error() ==
          "job: data.document_end = 3: allowed is -1 for a model without the input "
          "\"segment_ids\", whose tokens would attend to those of other documents");
    tokens.inputs.inputs.push_back(token_input("segment_ids", 4));
    CHECK(
        tokens.error() ==
        "model.file: the input \"labels\" takes no label -100: allowed is a loss that ignores it, "
        "for data.document_end");
    tokens.inputs.inputs[1].field.low = -100;
    CHECK(tokens.source()->train_count() == 2);
    tokens.inputs.inputs[2].field.high = 2;
    CHECK(
        tokens.error() ==
        "model.file: the input \"segment_ids\" takes 0 to 2: allowed is a model that takes 0 to 3");
  }

  TEST_CASE("a model or a job that does not fit is refused") {
    Tokens tokens;
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(9)));
    tokens.spec.data.length = 8;
    CHECK(tokens.error() == "job: data.length = 8: allowed is 4, as the inputs of the model, or 0");
    tokens.spec.data.length = 4;
    CHECK(tokens.source()->train_count() == 2);
    const std::string no_tokens =
        "job: data.kind = \"tokens\": allowed is another kind, because the model has not two "
        "inputs i32 [T], the ids and the labels";
    tokens.inputs.inputs[1] = token_input("labels", 5);
    CHECK(tokens.error() == no_tokens);
    tokens.inputs.inputs.pop_back();
    CHECK(tokens.error() == no_tokens);
    tokens.inputs.inputs = {token_input("ids", 4), token_input("labels", 4)};
    tokens.inputs.inputs[0].type = ValueType::kF32;
    CHECK(tokens.error() == no_tokens);
  }

  TEST_CASE("a directory without tokens is refused") {
    Tokens tokens;
    CHECK(tokens.error() == tokens.spec.data.path +
                                ": there are no tokens: allowed is a directory with train/ or "
                                "train.bin");
    tokens.write("train/readme.txt", "nothing");
    CHECK(tokens.error() ==
          tokens.place("train") + ": number of files *.bin and *.npy = 0: allowed is 1 to 100000");
    tokens.write("train/0.bin", npy_data(counted<std::uint16_t>(4)));
    const std::string few =
        ": number of windows = 0: allowed is at least 1, so a file with at least 5 tokens";
    CHECK(tokens.error() == tokens.place("train/0.bin") + few);
    tokens.write("train/1.bin", npy_data(counted<std::uint16_t>(4)));
    CHECK(tokens.error() == tokens.place("train") + few);
    tokens.write("train/1.bin", npy_data(counted<std::uint16_t>(5)));
    CHECK(tokens.source()->train_count() == 1);
    tokens.write("eval/0.bin", "");
    CHECK(tokens.error() == tokens.place("eval/0.bin") + few);
  }

  TEST_CASE("a shard that is damaged or of another form is refused") {
    Tokens tokens;
    const std::string bin = tokens.place("train/0.bin") + ": ",
                      whole = npy_data(counted<std::uint16_t>(9));
    const auto error_of = [&](const std::string& bytes) {
      tokens.write("train/0.bin", bytes);
      return tokens.error();
    };
    CHECK(error_of(whole + "x") == bin +
                                       "size in bytes = 19: allowed is a multiple of 2, the size "
                                       "of a token (data.token_type = \"uint16\")");
    const std::string version = bin + "the version in its header is not as it must be: allowed is ";
    CHECK(error_of(token_header(20240520, 2, 9) + whole) ==
          version + "1, as llm.c writes it with this type");
    CHECK(error_of(token_header(20240801, 1, 9) + whole) ==
          version + "7, as llm.c writes it with this type");
    for (const std::size_t promised : {8, 10})
      CHECK(error_of(token_header(20240520, 1, promised) + whole) ==
            bin + "size in bytes = 1042: allowed is the size that its header says");
    CHECK(error_of(token_header(20240520, 1, 9).substr(0, 100)).find("its header says") !=
          std::string::npos);
    CHECK(error_of(token_header(20240520, 1, std::size_t{0} - 1)).find("its header says") !=
          std::string::npos);
    fs::remove(tokens.place("train/0.bin"));
    const std::string npy = tokens.place("train/0.npy") + ": ";
    tokens.write("train/0.npy", npy_file(npy_literal("<f4", {9}), npy_data(counted<float>(9))));
    CHECK(tokens.error() == npy + "type of elements = f4: allowed is u2, u4, i4 or i8 for tokens");
    tokens.write("train/0.npy", npy_file(npy_literal("<u2", {3, 3}), whole));
    CHECK(tokens.error() == npy + "number of axes = 2: allowed is 1, that of the tokens");
  }

  TEST_CASE("a token outside of the range of the model is named with its shard and position") {
    Tokens tokens;
    auto ids = counted<std::int64_t>(41);
    ids[20] = -1;
    tokens.write("train/0.bin", npy_data(counted<std::uint16_t>(13)));
    tokens.write("train/1.npy", npy_file(npy_literal("<i8", {41}), npy_data(ids)));
    const std::string wrong = tokens.place("train/1.npy") +
                              ": token 20 is not as it must be: allowed is 0 to 4999, the range of "
                              "input ";
    const auto source = tokens.source();  // neither in the first nor in the last window
    CHECK(train_error(*source, 3 + 5) == wrong + "\"ids\" of the model");
    CHECK(train_error(*source, 3 + 4) == wrong + "\"labels\" of the model");
    CHECK(train_sample(*source, 3 + 6)[0] == 24);
    ids[20] = 20;
    ids[40] = kLargest + 1;
    tokens.write("train/1.npy", npy_file(npy_literal("<i8", {41}), npy_data(ids)));
    CHECK(tokens.error() == tokens.place("train/1.npy") +
                                ": token 40 is not as it must be: allowed is 0 to 4999, the range "
                                "of input \"labels\" of the model");
  }

  TEST_CASE("a shard that is a link to a file outside of the roots is refused") {
    Tokens tokens;
    const test::TempDirectory outside;
    test::write_file(outside / "secret.bin", npy_data(counted<std::uint16_t>(9)));
    fs::create_directories(tokens.place("train"));
    fs::create_symlink(outside / "secret.bin", tokens.place("train/0.bin"));
    CHECK(tokens.source()->train_count() == 2);
    PathRoots roots;
    roots.data = std::vector{fs::canonical(tokens.directory.path())};
    const ConfinedThread confined(roots);
    const auto refused = tokens.open();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("a shard whose length changes while a job uses it ends the reading") {
    Tokens tokens;
    const std::string file = tokens.place("train.bin");
    tokens.write("train.bin", npy_data(counted<std::uint16_t>(13)));
    const auto source = tokens.source();
    for (const std::size_t size : {12, 14}) {
      tokens.write("train.bin", npy_data(counted<std::uint16_t>(size)));
      CHECK(train_error(*source, 0) == file + ": size in bytes = " + std::to_string(2 * size) +
                                           ": allowed is 26, as when the job opened it");
    }
    fs::remove(file);
    CHECK(train_error(*source, 0) == file + ": No such file or directory");
  }

  TEST_CASE("memory does not grow with the file") {
    constexpr std::uint64_t kBytes = std::uint64_t{20} << 30;
    Tokens tokens;
    tokens.inputs.inputs = {token_input("ids", 1024), token_input("labels", 1024)};
    tokens.write("train.bin", "");
    fs::resize_file(tokens.place("train.bin"), kBytes);
    const std::uint64_t before = resident_bytes();
    const auto source = tokens.source();
    CHECK(source->train_count() == (kBytes / 2 - 1) / 1024);
    const std::uint64_t distance = source->train_count() / 20'000;
    for (std::uint64_t i = 0; i < 20'000; ++i)
      REQUIRE(train_sample(*source, i * distance)[17] == 0);
    CHECK(resident_bytes() < before + (std::uint64_t{16} << 20));
  }
}

}  // namespace es::store
