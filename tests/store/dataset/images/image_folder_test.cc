#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <bit>
#include <set>

#include "proto/base/digest.h"
#include "tests/store/dataset/images/image_files.h"
#include "tests/store/temp_directory.h"
#include "tests/support/resident_bytes.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

void write_image(const TempDirectory& directory, const std::string& name,
                 const std::string& bytes) {
  const std::filesystem::path file = directory / name;
  std::filesystem::create_directories(file.parent_path());
  write_file(file, bytes);
}

// Two classes, with one file of each kind among them.
void write_set(const TempDirectory& directory) {
  write_image(directory, "train/dog/b.JPG", make_jpeg(smooth_picture(20, 30)));
  write_image(directory, "train/cat/z.png", make_png(picture(16, 16)));
  write_image(directory, "train/cat/a.jpeg", make_png(smooth_picture(25, 9)));  // A wrong name.
  write_image(directory, "train/cat/notes.txt", "no image");
  write_image(directory, "val/dog/1.png", make_png(picture(16, 16)));
}

JobSpec job(const TempDirectory& directory) {
  JobSpec spec;
  spec.seed = 3;
  spec.model.classes = 2;
  spec.data.kind = "image_folder";
  spec.data.path = directory.path().string();
  spec.data.height = spec.data.width = 16;
  spec.data.channels = 3;
  return spec;
}

std::string error_of(const JobSpec& spec) {
  const auto source = image_folder_source(spec);
  return source.ok() ? "" : source.error().message;
}

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::vector<float> sample(const SampleSource& source, std::uint64_t epoch, std::uint64_t index) {
  std::vector<float> words(source.layout().words());
  REQUIRE(source.fill_train(epoch, std::span(&index, 1), words).ok());
  return words;
}

std::int32_t label(const std::vector<float>& words) {
  return std::bit_cast<std::int32_t>(words.back());
}

}  // namespace

TEST_SUITE("store/dataset/images/image_folder") {
  TEST_CASE("classes and files are numbered by name, and other files are skipped") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *image_folder_source(job(directory));
    REQUIRE(source->train_count() == 3);
    CHECK(source->eval_count() == 1);
    CHECK(label(sample(*source, 0, 0)) == 0);
    CHECK(label(sample(*source, 0, 1)) == 0);
    CHECK(label(sample(*source, 0, 2)) == 1);
    CHECK(source->true_label(0) == 1);
  }

  TEST_CASE("an image of the wanted size is only normalised") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *image_folder_source(job(directory));
    const std::vector<float> train = sample(*source, 0, 1);
    std::vector<float> eval(source->layout().words());
    REQUIRE(source->fill_eval(0, 1, 1, eval).ok());
    const RawImage image = picture(16, 16);
    for (std::size_t p = 0; p < image.pixels.size(); ++p) {
      CHECK(train[p] == (static_cast<float>(image.pixels[p]) / 255.0f - 0.5f) / 0.5f);
      CHECK(eval[p] == train[p]);
    }
  }

  TEST_CASE("random resized crops differ by epoch and by seed, and are repeatable") {
    TempDirectory directory;
    write_set(directory);
    JobSpec spec = job(directory);
    spec.data.random_resized_crop = true;
    const auto source = *image_folder_source(spec);
    spec.seed = 4;
    const auto other = *image_folder_source(spec);
    std::set<std::vector<float>> seen;
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      CHECK(sample(*source, epoch, 2) == sample(*source, epoch, 2));
      seen.insert(sample(*source, epoch, 2));
      seen.insert(sample(*other, epoch, 2));
    }
    CHECK(seen.size() == 20);
  }

  TEST_CASE("the bits of its samples never change") {
    TempDirectory directory;
    write_set(directory);
    JobSpec spec = job(directory);
    spec.data.random_resized_crop = spec.data.flip = true;
    spec.data.normalise = "imagenet";
    const auto source = *image_folder_source(spec);
    DigestBuilder digest;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::vector<float> words = sample(*source, 5, i);
      digest.add(std::as_bytes(std::span(words)));
    }
    CHECK(digest.finish().hex() == "9da2949392b1214b51b7d76cdff9f4c6");
  }

  TEST_CASE("grey samples have one channel") {
    TempDirectory directory;
    write_set(directory);
    JobSpec spec = job(directory);
    spec.data.channels = 1;
    const auto source = *image_folder_source(spec);
    const std::vector<float> words = sample(*source, 0, 1);
    REQUIRE(words.size() == 257);
    const RawImage image = picture(16, 16);
    const auto* first = image.pixels.data();
    const auto grey = (19595u * first[0] + 38470u * first[1] + 7471u * first[2] + 32768u) >> 16;
    CHECK(words[0] == (static_cast<float>(grey) / 255.0f - 0.5f) / 0.5f);
    spec.data.channels = 2;
    CHECK(mentions(error_of(spec), "data.channels = 2: allowed is 1 or 3"));
  }

  TEST_CASE("folders that do not fit are refused") {
    TempDirectory directory;
    JobSpec spec = job(directory);
    CHECK(mentions(error_of(spec), "train"));
    write_set(directory);
    spec.model.classes = 3;
    CHECK(mentions(error_of(spec), "folders of classes = 2: allowed is model.classes = 3"));
    spec.model.classes = 2;
    write_image(directory, "val/bird/1.png", make_png(picture(4, 4)));
    CHECK(mentions(error_of(spec), "val: folder of a class is not as it must be"));
    std::filesystem::remove_all(directory / "val");
    std::filesystem::create_directories(directory / "val/cat");
    CHECK(mentions(error_of(spec), "val: images = 0"));
  }

  TEST_CASE("a damaged or missing image is an error of the batch that needs it, with its name") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *image_folder_source(job(directory));
    const std::string whole = read_file(directory / "train/dog/b.JPG");
    write_file(directory / "train/dog/b.JPG", whole.substr(0, whole.size() / 2));
    std::vector<float> words(2 * source->layout().words());
    const std::vector<std::uint64_t> samples{1, 2};
    const Status cut = source->fill_train(0, samples, words);
    REQUIRE_FALSE(cut.ok());
    CHECK(mentions(cut.error().message, "train/dog/b.JPG: damaged JPEG image"));
    std::filesystem::remove(directory / "train/dog/b.JPG");
    const Status gone = source->fill_train(0, samples, words);
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().kind == ErrorKind::kNotFound);
    CHECK(source
              ->fill_train(0, std::span(samples).first(1),
                           std::span(words).first(source->layout().words()))
              .ok());
  }

  TEST_CASE("memory does not grow with the images") {
    constexpr std::uint64_t kImages = 12'000, kRead = 1'500;
    TempDirectory directory;
    const std::string image = make_png(picture(96, 96));
    write_image(directory, "train/cat/0.png", image);
    write_image(directory, "train/dog/0.png", image);
    write_image(directory, "val/dog/0.png", image);
    for (std::uint64_t i = 1; i < kImages; ++i)
      std::filesystem::create_hard_link(directory / "train/cat/0.png",
                                        directory / ("train/cat/" + std::to_string(i) + ".png"));
    // The pixels of those that are read would be more than 150 MiB.
    REQUIRE(std::uint64_t{96 * 96 * 3 * 4} * kRead > std::uint64_t{150} << 20);
    const std::uint64_t before = resident_bytes();
    const auto source = image_folder_source(job(directory));
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    REQUIRE((*source)->train_count() == kImages + 1);
    for (std::uint64_t i = 0; i < kRead; ++i) sample(**source, 0, i * (kImages / kRead));
    CHECK(resident_bytes() < before + (std::uint64_t{16} << 20));
  }
}
