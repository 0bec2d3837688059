#include "store/dataset/images/raw_image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "proto/base/digest.h"
#include "tests/store/dataset/images/image_files.h"
#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

RawImage decoded(const std::string& bytes) {
  RawImage image;
  const Status status = decode_image(bytes, "a.jpg", image);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
  return image;
}

std::string error_of(const std::string& bytes) {
  RawImage image;
  const Status status = decode_image(bytes, "DIR/a.jpg", image);
  return status.ok() ? "" : status.error().message;
}

int largest_difference(const RawImage& a, const RawImage& b) {
  REQUIRE(a.height == b.height);
  REQUIRE(a.width == b.width);
  REQUIRE(a.pixels.size() == b.pixels.size());
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(int(a.pixels[i]) - int(b.pixels[i])));
  return largest;
}

std::vector<std::string> all_kinds() {
  const RawImage image = smooth_picture(23, 37);
  return {make_jpeg(image),
          make_jpeg(image, {.progressive = true}),
          make_jpeg(image, {.grey = true}),
          make_jpeg(image, {.half_chroma = true}),
          make_jpeg(image, {.cmyk = true}),
          make_png(image),
          make_png(image, PngKind::kGrey),
          make_png(image, PngKind::kAlpha),
          make_png(image, PngKind::kPalette),
          make_png(image, PngKind::kDeep),
          make_png(image, PngKind::kInterlaced)};
}

}  // namespace

TEST_SUITE("store/dataset/images/raw_image") {
  TEST_CASE("PNG gives the pixels that were written, for every kind of file") {
    const RawImage image = picture(9, 14);
    CHECK(decoded(make_png(image)).pixels == image.pixels);
    for (const PngKind kind : {PngKind::kAlpha, PngKind::kDeep, PngKind::kInterlaced})
      CHECK(decoded(make_png(image, kind)).pixels == image.pixels);
    const RawImage grey = decoded(make_png(image, PngKind::kGrey));
    const RawImage palette = decoded(make_png(image, PngKind::kPalette));
    for (std::size_t p = 0; p < 9 * 14; ++p)
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(grey.pixels[3 * p + c] == image.pixels[3 * p]);
        const int entry = image.pixels[3 * p] % 4;
        CHECK(palette.pixels[3 * p + c] == (entry == 0 ? 0 : 30 * entry - 20 + 10 * int(c)));
      }
  }

  TEST_CASE("JPEG gives nearly the pixels that were written, in every colour space") {
    const RawImage image = smooth_picture(40, 50);
    CHECK(largest_difference(decoded(make_jpeg(image)), image) <= 8);
    CHECK(largest_difference(decoded(make_jpeg(image, {.progressive = true})), image) <= 8);
    CHECK(largest_difference(decoded(make_jpeg(image, {.half_chroma = true})), image) <= 30);
    CHECK(largest_difference(decoded(make_jpeg(image, {.cmyk = true})), image) <= 8);
    const RawImage grey = decoded(make_jpeg(image, {.grey = true}));
    for (std::size_t p = 0; p < 40 * 50; ++p) {
      CHECK(grey.pixels[3 * p] == grey.pixels[3 * p + 2]);
      CHECK(std::abs(int(grey.pixels[3 * p]) - int(image.pixels[3 * p])) <= 8);
    }
  }

  TEST_CASE("the bits of decoded JPEG files never change") {
    std::string all;
    for (const std::string& bytes : all_kinds()) {
      const RawImage image = decoded(bytes);
      all.append(image.pixels.begin(), image.pixels.end());
    }
    CHECK(digest_of(all).hex() == "400b19539ce1e2844651f1e0e8d1cebd");
  }

  TEST_CASE("a file that is no image is refused with its name") {
    CHECK(error_of("").find("DIR/a.jpg: does not begin as an image does") == 0);
    CHECK(error_of("GIF89a.....").find("allowed is a JPEG or PNG image") != std::string::npos);
  }

  TEST_CASE("a file that is cut at any byte is refused, up to the bytes that carry no pixel") {
    for (const std::string& whole : all_kinds()) {
      const std::vector<std::uint8_t> pixels = decoded(whole).pixels;
      for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
        RawImage image;
        const Status status = decode_image(whole.substr(0, size), "a.jpg", image);
        if (status.ok())
          REQUIRE(image.pixels == pixels);
        else
          REQUIRE(status.error().message.find("a.jpg: ") == 0);
      }
      CHECK_FALSE(error_of(whole.substr(0, whole.size() / 2)).empty());
      CHECK_FALSE(error_of(whole.substr(0, whole.size() * 4 / 5)).empty());
    }
  }

  TEST_CASE("sizes beyond the limits are refused before memory is allocated for them") {
    CHECK(check_image_size("x", 1, kImageSideMax).ok());
    CHECK_FALSE(check_image_size("x", 0, 5).ok());
    CHECK_FALSE(check_image_size("x", 5, kImageSideMax + 1).ok());
    CHECK_FALSE(check_image_size("x", 60'000, 60'000).ok());
    std::string jpeg = make_jpeg(smooth_picture(8, 8));
    const std::size_t frame = jpeg.find("\xff\xc0");  // Then length (2), precision, height, width.
    jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
    CHECK(error_of(jpeg).find("height x width = 65280x65280") != std::string::npos);
  }

  TEST_CASE("mutated files give an image of their size or one error") {
    std::mt19937_64 random(seed("image mutations"));
    const std::vector<std::string> files = all_kinds();
    int accepted = 0;
    for (int round = 0; round < 6000; ++round) {
      const std::string bytes = mutate(files[random() % files.size()], random);
      RawImage image;
      const Status status = decode_image(bytes, "a.jpg", image);
      if (!status.ok()) {
        REQUIRE(status.error().message.find("a.jpg: ") == 0);
        continue;
      }
      ++accepted;
      REQUIRE(image.pixels.size() == std::size_t{image.height} * image.width * 3);
    }
    CHECK(accepted > 0);
    CHECK(accepted < 6000);
  }
}
