#include "store/dataset/images/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/store/dataset/images/image_files.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels resized(const RawImage& image, const PixelBox& box, std::uint32_t h, std::uint32_t w) {
  Pixels out(std::size_t{h} * w * 3);
  resize_bilinear(image, box, h, w, out);
  return out;
}

PixelBox whole(const RawImage& image) {
  return {0, 0, image.height, image.width};
}

}  // namespace

TEST_SUITE("store/dataset/images/resize") {
  // The expected values are those that Pillow 9.4 computes from the same pixels with
  // crop(box).resize(size, BILINEAR).
  TEST_CASE(
      "equals Pillow's bilinear resize for smaller and larger sizes and for parts of an image") {
    const RawImage image = picture(11, 13);
    CHECK(resized(image, whole(image), 3, 4) ==
          Pixels{122, 55, 198, 132, 152, 156, 121, 105, 155, 139, 54,  179,
                 127, 76, 155, 127, 156, 129, 131, 121, 137, 128, 77,  127,
                 132, 92, 173, 130, 98,  147, 131, 115, 169, 136, 100, 145});
    CHECK(resized(picture(3, 2), {0, 0, 3, 2}, 4, 5) ==
          Pixels{0,   0,  255, 4,   1,  255, 19,  7,  255, 33,  12, 255, 37,  13, 255,
                 63,  4,  255, 67,  5,  253, 82,  11, 246, 96,  16, 239, 100, 17, 237,
                 139, 10, 255, 143, 11, 251, 158, 17, 235, 172, 22, 219, 176, 23, 215,
                 202, 14, 255, 206, 15, 249, 221, 21, 226, 235, 26, 203, 239, 27, 197});
    CHECK(resized(image, {1, 2, 7, 10}, 3, 3) ==
          Pixels{131, 136, 135, 129, 140, 122, 141, 51,  166, 114, 151, 128, 133, 155,
                 136, 118, 66,  137, 124, 138, 148, 136, 140, 123, 134, 81,  125});
  }

  TEST_CASE("the same size changes nothing") {
    const RawImage image = picture(7, 6);
    CHECK(resized(image, whole(image), 7, 6) == image.pixels);
  }

  TEST_CASE("an image of one colour keeps it at any size") {
    std::mt19937_64 random(seed("even colours"));
    for (int round = 0; round < 200; ++round) {
      const auto side = [&] { return 1 + std::uint32_t(random() % 70); };
      RawImage image{side(), side(), {}};
      const auto value = std::uint8_t(random());
      image.pixels.assign(std::size_t{image.height} * image.width * 3, value);
      const Pixels out = resized(image, whole(image), side(), side());
      CHECK(std::ranges::all_of(out, [&](std::uint8_t pixel) { return pixel == value; }));
    }
  }

  TEST_CASE("a box gives the same result as the cut image") {
    const RawImage image = picture(20, 30);
    const PixelBox box{3, 11, 9, 13};
    RawImage cut{box.height, box.width, {}};
    for (std::uint32_t y = 0; y < box.height; ++y)
      for (std::uint32_t i = 0; i < box.width * 3; ++i)
        cut.pixels.push_back(image.pixels[((box.y + y) * 30 + box.x) * 3 + i]);
    CHECK(resized(image, box, 5, 17) == resized(cut, whole(cut), 5, 17));
  }
}
