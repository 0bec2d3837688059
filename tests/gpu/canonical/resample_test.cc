#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

TEST_SUITE("gpu/canonical/resample") {
  TEST_CASE("the gradient of upsampling adds the four copies of a pixel in order") {
    Random random(test::seed("upsample"));
    for (int trial = 0; trial < 40; ++trial) {
      const std::int64_t n = random.integer(1, 3), h = random.integer(1, 5);
      const std::int64_t w = random.integer(1, 5), c = random.integer(1, 40);
      const Floats dy = random.normals(n * 2 * h * 2 * w * c);
      const auto out = same_in_all_classes("upsample", [&](const KernelTable& t) {
        std::vector<Floats> dx;
        t.upsample2_bwd(n, h, w, c, dy, dx.emplace_back(n * h * w * c));
        return dx;
      });
      for (std::int64_t i = 0; i < n * h * w * c; ++i) {
        const std::int64_t channel = i % c, col = i / c % w, row = i / (c * w);  // For all images.
        const auto at = [&](std::int64_t r, std::int64_t q) {
          return dy[((row * 2 + r) * 2 * w + col * 2 + q) * c + channel];
        };
        REQUIRE(out[0][i] == ((at(0, 0) + at(0, 1)) + at(1, 0)) + at(1, 1));
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
