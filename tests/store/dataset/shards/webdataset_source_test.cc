#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <fstream>

#include "store/dataset/captured_inputs.h"
#include "tests/store/dataset/images/image_files.h"
#include "tests/store/dataset/shards/tar_files.h"
#include "tests/store/temp_directory.h"
#include "tests/support/resident_bytes.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  write_file(file, bytes);
}

JobSpec job(const fs::path& path, const std::string& kind) {
  JobSpec spec;
  spec.seed = 3;
  spec.model.classes = 2;
  spec.data.kind = kind;
  spec.data.path = path.string();
  spec.data.height = spec.data.width = 16;
  spec.data.channels = 3;
  spec.data.random_resized_crop = spec.data.flip = true;
  return spec;
}

std::vector<float> all_samples(const SampleSource& source) {
  const auto size = static_cast<std::size_t>(source.layout().words());
  std::vector<float> words, sample(size);
  for (std::uint64_t i = 0; i < source.train_count(); ++i) {
    REQUIRE(source.fill_train(4, std::span(&i, 1), sample).ok());
    words.insert(words.end(), sample.begin(), sample.end());
  }
  for (std::uint64_t i = 0; i < source.eval_count(); ++i) {
    REQUIRE(source.fill_eval(i, 1, 1, sample).ok());
    words.insert(words.end(), sample.begin(), sample.end());
  }
  return words;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

// The same images as files in folders and in shards, in the same order.
void write_both(const fs::path& directory) {
  const std::string images[] = {make_jpeg(smooth_picture(20, 30)), make_png(picture(16, 16)),
                                make_png(smooth_picture(25, 9))};
  put(directory / "folder/train/cat/0.jpg", images[0]);
  put(directory / "folder/train/cat/1.png", images[1]);
  put(directory / "folder/train/dog/2.png", images[2]);
  put(directory / "folder/val/dog/0.png", images[1]);
  put(directory / "shards/train/0.tar", tar_member("0.jpg", images[0]) + tar_member("0.cls", "0") +
                                            tar_member("1.png", images[1]) +
                                            tar_member("1.cls", "0") + tar_end());
  put(directory / "shards/train/1.tar",
      tar_member("2.png", images[2]) + tar_member("2.cls", "1") + tar_end());
  put(directory / "shards/eval/0.tar",
      tar_member("0.png", images[1]) + tar_member("0.cls", "1") + tar_end());
}

// The inputs of a captured model f(x, target).
CapturedInputs small_inputs(std::int32_t last_class) {
  return {
      .inputs = {
          {{.name = "x", .height = 16, .width = 16, .channels = 3}, ValueType::kF32, {3, 16, 16}},
          // The loss ignores labels of -100.
          {{.name = "target", .type = FieldType::kI32, .low = -100, .high = last_class},
           ValueType::kI32,
           {}}}};
}

}  // namespace

TEST_SUITE("store/dataset/shards/webdataset_source") {
  TEST_CASE("the samples have the bits of the same images in folders") {
    TempDirectory directory;
    write_both(directory.path());
    const auto shards = open_samples(job(directory / "shards", "webdataset"));
    const auto folder = open_samples(job(directory / "folder", "image_folder"));
    REQUIRE(shards.ok());
    REQUIRE(folder.ok());
    CHECK((*shards)->train_count() == 3);
    CHECK((*shards)->eval_count() == 1);
    CHECK((*shards)->true_label(0) == 1);
    CHECK(same_bytes(all_samples(**shards), all_samples(**folder)));
  }

  TEST_CASE("both kinds fit a captured model with an image and a class, whatever their names") {
    TempDirectory directory;
    write_both(directory.path());
    const CapturedInputs inputs = small_inputs(1);
    for (const auto& [name, kind] :
         {std::pair{"shards", "webdataset"}, std::pair{"folder", "image_folder"}}) {
      JobSpec spec = job(directory / name, kind);
      const auto plain = open_samples(spec);
      spec.model = {.file = "net.esmodel"};
      const auto captured = open_samples(spec, &inputs);
      REQUIRE(captured.ok());
      CHECK((*captured)->layout() == inputs.layout());
      CHECK(same_bytes(all_samples(**captured), all_samples(**plain)));
      spec.data.width = 17;
      const auto wrong = open_samples(spec, &inputs);
      REQUIRE_FALSE(wrong.ok());
      CHECK(wrong.error().message.find("\"x\" f32 [16,16,3], as the input of the model") !=
            std::string::npos);
    }
    CapturedInputs swapped = inputs;
    std::swap(swapped.inputs[0], swapped.inputs[1]);
    JobSpec spec = job(directory / "shards", "webdataset");
    spec.model = {.file = "net.esmodel"};
    CHECK_FALSE(open_samples(spec, &swapped).ok());
    const CapturedInputs one_class = small_inputs(0);
    CHECK_FALSE(open_samples(spec, &one_class).ok());
  }

  TEST_CASE("without shards for it there is no evaluation") {
    TempDirectory directory;
    write_both(directory.path());
    fs::remove_all(directory / "shards/eval");
    const auto source = open_samples(job(directory / "shards", "webdataset"));
    REQUIRE(source.ok());
    CHECK((*source)->eval_count() == 0);
  }

  TEST_CASE("a shard that has changed, or has a damaged image, is an error of the batch") {
    TempDirectory directory;
    write_both(directory.path());
    const fs::path shard = directory / "shards/train/1.tar";
    const auto source = *open_samples(job(directory / "shards", "webdataset"));
    std::vector<float> words(source->layout().words());
    const std::uint64_t first = 0, last = 2;
    const auto error_of_last = [&] {
      const Status filled = source->fill_train(0, std::span(&last, 1), words);
      return filled.ok() ? std::string() : filled.error().message;
    };
    const std::string whole = read_file(shard);
    std::string damaged = whole;
    damaged[600] = static_cast<char>(damaged[600] ^ 1);
    write_file(shard, damaged);
    CHECK(error_of_last().find("train/1.tar: block 0: damaged PNG image") != std::string::npos);
    write_file(shard, whole + std::string(512, '\0'));
    CHECK(error_of_last().find("train/1.tar: size in bytes = ") != std::string::npos);
    fs::remove(shard);
    CHECK(error_of_last().find("train/1.tar: No such file") != std::string::npos);
    CHECK(source->fill_train(0, std::span(&first, 1), words).ok());
  }

  TEST_CASE("memory does not grow with the archives") {
    constexpr std::uint64_t kSamples = 5, kRest = std::uint64_t{4} << 30;  // 20 GiB
    TempDirectory directory;
    const fs::path shard = directory / "train/0.tar";
    fs::create_directories(shard.parent_path());
    std::ofstream file(shard, std::ios::binary);
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      const std::string key = std::to_string(i);
      // A member that belongs to the sample and is not read; its content is a hole in the file.
      file << tar_member(key + ".png", make_png(picture(16, 16))) << tar_member(key + ".cls", "1")
           << tar_header(key + ".raw", kRest);
      file.seekp(static_cast<std::streamoff>(kRest), std::ios::cur);
    }
    file << tar_end();
    file.close();
    REQUIRE(fs::file_size(shard) > kSamples * kRest);
    const std::uint64_t before = resident_bytes();
    const auto source = open_samples(job(directory.path(), "webdataset"));
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    CHECK((*source)->train_count() == kSamples);
    CHECK(all_samples(**source).size() ==
          kSamples * static_cast<std::size_t>((*source)->layout().words()));
    CHECK(resident_bytes() < before + (std::uint64_t{16} << 20));
  }
}
