#include "store/dataset/images/crop.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "store/dataset/stream_key.h"
#include "store/fixed_math.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

TEST_SUITE("store/dataset/images/crop") {
  TEST_CASE("exp is right to a few units in the last place, and saturates") {
    for (double x = -690; x < 690; x += 0.37)
      CHECK(fixed_exp(x) == doctest::Approx(std::exp(x)).epsilon(1e-15));
    CHECK(fixed_exp(0) == 1.0);
    CHECK(fixed_exp(-1e300) == 0.0);
    CHECK(std::isfinite(fixed_exp(1e300)));
    CHECK(std::isnan(fixed_exp(NAN)));
    CHECK(fixed_sigmoid(0) == 0.5);
  }

  TEST_CASE("a random crop lies in the image, with area and aspect in the published ranges") {
    std::mt19937_64 random(seed("crops"));
    for (int round = 0; round < 5000; ++round) {
      const auto height = std::uint32_t(1 + random() % 600),
                 width = std::uint32_t(1 + random() % 600);
      const PixelBox box =
          draw_crop(height, width, stream_key(random(), DataStream::kResizedCrop, 1), random());
      REQUIRE((box.height > 0 && box.width > 0));
      REQUIRE((box.y + box.height <= height && box.x + box.width <= width));
      if (height < 100 || width < 100) continue;  // Rounding matters for small crops.
      if (std::max(height, width) > 2 * std::min(height, width))
        continue;  // The crop may be the fallback.
      const double area = double(box.height) * box.width / (double(height) * width);
      CHECK((area > 0.07 && area <= 1.0));
      const double aspect = double(box.width) / box.height;
      CHECK((aspect > 0.70 && aspect < 1.40));
    }
  }

  TEST_CASE("areas are spread evenly, and aspects on both sides of 1") {
    double area = 0;
    int wide = 0;
    for (std::uint64_t sample = 0; sample < 4000; ++sample) {
      const PixelBox box =
          draw_crop(1000, 1000, stream_key(3, DataStream::kResizedCrop, 0), sample);
      area += double(box.height) * box.width / 1e6 / 4000;
      wide += box.width > box.height;
    }
    CHECK(area > 0.45);
    CHECK(area < 0.55);
    CHECK(std::abs(wide - 2000) < 200);
  }

  TEST_CASE("an image that is too long for any crop gives its central part") {
    const PixelBox box = draw_crop(10, 1000, stream_key(1, DataStream::kResizedCrop, 0), 5);
    CHECK(box.height <= 10);
    CHECK(box.width <= 13);
  }

  TEST_CASE("the central crop has the aspect of the target, and zoom takes 7/8 of its sides") {
    CHECK(central_crop(100, 200, {10, 10, 3}, false) == PixelBox{0, 50, 100, 100});
    CHECK(central_crop(256, 256, {224, 224, 3}, true) == PixelBox{16, 16, 224, 224});
    CHECK(central_crop(100, 50, {10, 20, 3}, false) == PixelBox{37, 0, 25, 50});
    CHECK(central_crop(32, 32, {32, 32, 3}, false) == PixelBox{0, 0, 32, 32});
    CHECK(central_crop(1, 1, {5, 9, 3}, true) == PixelBox{0, 0, 1, 1});
  }
}
