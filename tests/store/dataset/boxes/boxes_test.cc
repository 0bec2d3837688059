#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "store/dataset/boxes/synthetic_boxes.h"
#include "store/dataset/boxes/voc_reader.h"
#include "store/dataset/sources.h"
#include "tests/store/dataset/images/image_files.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

const std::vector<std::string> kClasses = {"cat", "dog"};

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::string object(const std::string& name, const std::string& bounds, bool difficult = false) {
  return "<object><name>" + name + "</name><difficult>" + (difficult ? "1" : "0") +
         "</difficult><bndbox>" + bounds + "</bndbox></object>";
}

std::string bounds(const std::string& xmin, const std::string& ymin, const std::string& xmax,
                   const std::string& ymax) {
  return "<xmin>" + xmin + "</xmin><ymin>" + ymin + "</ymin><xmax>" + xmax + "</xmax><ymax>" +
         ymax + "</ymax>";
}

// An image of 40 x 20 pixels.
std::string annotation(const std::string& objects) {
  return "<annotation><filename>x.jpg</filename><size><width>40</width><height>20</height>"
         "<depth>3</depth></size>" +
         objects + "</annotation>";
}

std::string error_of(const std::string& xml) {
  const auto image = parse_voc_annotation(xml, "x.xml", kClasses);
  return image.ok() ? "" : image.error().message;
}

void write_set(const TempDirectory& directory) {
  for (const char* folder : {"ImageSets/Main", "Annotations", "JPEGImages"})
    std::filesystem::create_directories(directory / folder);
  write_file(directory / "classes.txt", "cat\ndog\n");
  write_file(directory / "ImageSets/Main/train.txt", "one\ntwo\n");
  write_file(directory / "ImageSets/Main/val.txt", "two\n");
  write_file(directory / "Annotations/one.xml",
             annotation(object("dog", bounds("1", "1", "20", "10")) +
                        object("cat", bounds("11", "3", "20", "8"))));
  write_file(directory / "Annotations/two.xml",
             annotation(object("cat", bounds("5", "5", "8", "8"), true) +
                        object("dog", bounds("31", "1", "40", "20"))));
  write_file(directory / "JPEGImages/one.jpg", make_jpeg(smooth_picture(20, 40)));
  write_file(directory / "JPEGImages/two.jpg", make_png(picture(20, 40)));
}

JobSpec job(const TempDirectory& directory) {
  JobSpec spec;
  spec.model.name = "yolov3";
  spec.model.classes = 2;
  spec.data.kind = "voc";
  spec.data.path = directory.path().string();
  spec.data.height = spec.data.width = 32;
  spec.data.channels = 3;
  spec.data.boxes = 3;
  return spec;
}

std::string source_error(const JobSpec& spec) {
  const auto source = voc_source(spec);
  return source.ok() ? "" : source.error().message;
}

std::vector<float> train_sample(const SampleSource& source, std::uint64_t epoch,
                                std::uint64_t index) {
  std::vector<float> words(source.layout().words());
  REQUIRE(source.fill_train(epoch, std::span(&index, 1), words).ok());
  return words;
}

std::vector<float> boxes_of(const std::vector<float>& sample, std::size_t count) {
  return {sample.end() - std::ptrdiff_t(5 * count), sample.end()};
}

}  // namespace

TEST_SUITE("store/dataset/boxes") {
  TEST_CASE("an annotation becomes boxes as fractions of the image") {
    const auto image =
        parse_voc_annotation(annotation(object("dog", bounds("1", "1", "40", "20")) +
                                        object("cat", bounds("11", "6", "20.5", "10"), true)),
                             "x.xml", kClasses);
    REQUIRE(image.ok());
    CHECK(image->width == 40);
    REQUIRE(image->boxes.size() == 2);
    CHECK(image->boxes[0].label == 1);
    CHECK(image->boxes[0].x == 0.5f);
    CHECK(image->boxes[0].h == 1.0f);
    CHECK(image->boxes[1].x == static_cast<float>((10 + 20.5) / 80));
    CHECK(image->boxes[1].w == static_cast<float>(10.5 / 40));
    CHECK(image->boxes[1].y == 7.5f / 20);
    CHECK(image->boxes[1].difficult);
  }

  TEST_CASE("an error in an annotation is reported with its object") {
    const std::string good = object("dog", bounds("1", "1", "40", "20"));
    CHECK(mentions(error_of("<annotation>"), "x.xml: no XML"));
    CHECK(mentions(error_of("<a></a>"), "x.xml: width is not as it must be: allowed is a number"));
    CHECK(mentions(error_of(annotation(good + object("cow", bounds("1", "1", "2", "2")))),
                   "x.xml: object 1: name is not as it must be: allowed is one of the 2 classes"));
    CHECK(mentions(error_of(annotation(object("dog", bounds("1", "1", "41", "20")))),
                   "object 0: xmax is not as it must be: allowed is a number from 0 to 40"));
    CHECK(mentions(error_of(annotation(object("dog", bounds("9", "1", "9", "20")))),
                   "xmax is not as it must be: allowed is more than xmin"));
    CHECK(mentions(error_of(annotation(object("dog", bounds("nan", "1", "9", "20")))),
                   "xmin is not as it must be"));
    CHECK(mentions(error_of(annotation("<object><name>dog</name></object>")),
                   "xmin is not as it must be"));
    CHECK(mentions(error_of(annotation(object("dog", bounds("1x", "1", "9", "20")))),
                   "xmin is not as it must be"));
  }

  TEST_CASE("mutated annotations give boxes within the image, or an error with the file") {
    std::mt19937_64 random(seed("annotation mutations"));
    const std::string xml = annotation(object("dog", bounds("1", "1", "40", "20")) +
                                       object("cat", bounds("11", "6", "20.5", "10")));
    int accepted = 0;
    for (int round = 0; round < 10'000; ++round) {
      const auto image = parse_voc_annotation(mutate(xml, random), "x.xml", kClasses);
      if (!image.ok()) {
        REQUIRE(mentions(image.error().message, "x.xml"));
        continue;
      }
      ++accepted;
      for (const TrueBox& box : image->boxes) {
        REQUIRE((box.label == 0 || box.label == 1));
        REQUIRE((box.x - box.w / 2 > -1e-5 && box.x + box.w / 2 < 1 + 1e-5 && box.w > 0));
        REQUIRE((box.y - box.h / 2 > -1e-5 && box.y + box.h / 2 < 1 + 1e-5 && box.h > 0));
      }
    }
    CHECK(accepted > 0);
  }

  TEST_CASE("deeply nested and broken XML is refused") {
    std::string deep;
    for (int i = 0; i < 200'000; ++i) deep += "<a>";
    CHECK(mentions(error_of(deep), "no XML"));
    CHECK(mentions(error_of("<!DOCTYPE a [<!ENTITY x \"&x;&x;\">]><annotation>&x;</annotation>"),
                   "width"));
  }

  TEST_CASE("samples hold the boxes that are not difficult, then places without a box") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *voc_source(job(directory));
    CHECK(source->train_count() == 2);
    CHECK(source->eval_count() == 1);
    CHECK(boxes_of(train_sample(*source, 0, 0), 3) ==
          std::vector<float>{1, 0.25f, 0.25f, 0.5f, 0.5f, 0, 15.0f / 40, 5.0f / 20, 0.25f,
                             6.0f / 20, -1, 0, 0, 0, 0});
    CHECK(boxes_of(train_sample(*source, 0, 1), 3)[0] == 1);
    CHECK(boxes_of(train_sample(*source, 0, 1), 3)[5] == -1);
    REQUIRE(source->true_boxes(0).size() == 2);
    CHECK(source->true_boxes(0)[0].difficult);
  }

  TEST_CASE("a mirrored image has mirrored boxes") {
    TempDirectory directory;
    write_set(directory);
    const auto plain = *voc_source(job(directory));
    JobSpec spec = job(directory);
    spec.data.flip = true;
    const auto flipping = *voc_source(spec);
    const std::vector<float> straight = train_sample(*plain, 0, 0);
    int mirrored = 0;
    for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
      const std::vector<float> sample = train_sample(*flipping, epoch, 0);
      const bool flipped = boxes_of(sample, 3)[1] == 0.75f;
      mirrored += flipped;
      if (!flipped) CHECK(boxes_of(sample, 3) == boxes_of(straight, 3));
      for (int x = 0; x < 32; ++x) CHECK(sample[3 * (flipped ? 31 - x : x)] == straight[3 * x]);
    }
    CHECK(mirrored > 8);
    CHECK(mirrored < 32);
  }

  TEST_CASE("a set that does not fit the job is refused") {
    TempDirectory directory;
    write_set(directory);
    JobSpec spec = job(directory);
    spec.data.boxes = 1;
    CHECK(mentions(source_error(spec),
                   "its file in Annotations: objects = 2: allowed is at most data.boxes"));
    spec = job(directory);
    spec.model.classes = 20;
    CHECK(mentions(source_error(spec), "classes = 2: allowed is model.classes = 20"));
    spec = job(directory);
    spec.data.channels = 1;
    CHECK(mentions(source_error(spec), "data.channels = 1: allowed is 3"));
    spec = job(directory);
    spec.data.crop_padding = 4;
    CHECK(mentions(source_error(spec), "data.crop_padding = 4: allowed is 0"));
    spec = job(directory);
    write_file(directory / "ImageSets/Main/val.txt", "two\n../three\n");
    CHECK(mentions(source_error(spec), "val.txt: line 2: image is not as it must be"));
    write_file(directory / "ImageSets/Main/val.txt", "three\n");
    CHECK(
        mentions(source_error(spec), "val.txt: line 1: its file in Annotations: cannot be opened"));
    write_file(directory / "ImageSets/Main/val.txt", "");
    CHECK(mentions(source_error(spec), "val.txt: images = 0"));
    std::filesystem::remove(directory / "classes.txt");
    CHECK(mentions(source_error(spec), "classes = 20"));
  }

  TEST_CASE("an image whose size differs from its annotation is an error of its batch") {
    TempDirectory directory;
    write_set(directory);
    const auto source = *voc_source(job(directory));
    write_file(directory / "JPEGImages/two.jpg", make_png(picture(21, 40)));
    std::vector<float> words(source->layout().words());
    const std::uint64_t index = 1;
    const Status status = source->fill_train(0, std::span(&index, 1), words);
    REQUIRE_FALSE(status.ok());
    CHECK(mentions(
        status.error().message,
        "line 2: its file in JPEGImages: height x width is not as it must be: allowed is"));
  }

  TEST_CASE("synthetic: boxes lie in the image, do not overlap and show their class") {
    const SyntheticBoxes images({64, 48, 3}, 5, 20);
    // The mean colours of the classes, computed from the first images. The colours of the other
    // images must be nearest to those of their own class.
    std::vector<std::array<double, 4>> sums(5);
    const auto mean = [&](std::uint64_t index, const TrueBox& box) {
      std::vector<std::uint8_t> pixels(64 * 48 * 3);
      images.draw(Half::kTrain, index, pixels);
      std::array<double, 4> sum{};
      const int left = int(std::lround((box.x - box.w / 2) * 48));
      const int top = int(std::lround((box.y - box.h / 2) * 64));
      for (int y = 0; y < std::lround(box.h * 64); ++y)
        for (int x = 0; x < std::lround(box.w * 48); ++x, ++sum[3])
          for (int c = 0; c < 3; ++c) sum[c] += pixels[((top + y) * 48 + left + x) * 3 + c];
      for (int c = 0; c < 3; ++c) sum[c] /= sum[3];
      return sum;
    };
    int right = 0, all = 0;
    for (std::uint64_t index = 0; index < 300; ++index) {
      const std::vector<TrueBox> boxes = images.boxes(Half::kTrain, index);
      REQUIRE((!boxes.empty() && boxes.size() <= 3));
      for (const TrueBox& box : boxes) {
        CHECK((box.x - box.w / 2 > -1e-6 && box.x + box.w / 2 < 1 + 1e-6));
        CHECK((box.y - box.h / 2 > -1e-6 && box.y + box.h / 2 < 1 + 1e-6));
        for (const TrueBox& other : boxes) {
          const bool apart = std::abs(box.x - other.x) * 2 > box.w + other.w - 1e-5 ||
                             std::abs(box.y - other.y) * 2 > box.h + other.h - 1e-5;
          CHECK((&box == &other || apart));
        }
        const auto colour = mean(index, box);
        if (index < 100) {
          for (int c = 0; c < 3; ++c) sums[box.label][c] += colour[c];
          sums[box.label][3] += 1;
          continue;
        }
        std::size_t nearest = 0;
        double least = 1e18;
        for (std::size_t k = 0; k < 5; ++k) {
          double distance = 0;
          for (int c = 0; c < 3; ++c) distance += std::pow(colour[c] - sums[k][c] / sums[k][3], 2);
          if (distance < least) nearest = k;
          least = std::min(least, distance);
        }
        right += nearest == std::size_t(box.label);
        ++all;
      }
    }
    CHECK(all > 300);
    CHECK(right > all * 9 / 10);
  }

  TEST_CASE("synthetic: small images and few boxes; sides below 8 are refused") {
    JobSpec spec;
    spec.model.name = "yolov3";
    spec.model.classes = 1;
    spec.data.height = 8;
    spec.data.width = 9;
    spec.data.channels = 3;
    spec.data.boxes = 1;
    const auto source = synthetic_box_source(spec);
    REQUIRE(source.ok());
    for (std::uint64_t i = 0; i < 100; ++i) CHECK((*source)->true_boxes(i).size() == 1);
    spec.data.height = 7;
    CHECK(mentions(synthetic_box_source(spec).error().message, "7x9: allowed is at least 8"));
  }
}
