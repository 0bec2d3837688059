#include "gpu/cuda/kernels/product_cut.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

// Forward, data gradient and weight gradient.
void check(Random& random, const ConvShape& s) {
  const Floats x = mixed(random, s.n * s.h * s.w * s.c);
  const Floats w = mixed(random, s.oc * s.kh * s.kw * (s.c / s.groups));
  const Floats dy = mixed(random, s.n * s.oh() * s.ow() * s.oc), bias = random.normals(s.oc);
  const float* added = random.coin() ? bias.data() : nullptr;
  const auto expected = outputs({dy.size(), x.size(), w.size()});
  const auto actual = outputs({dy.size(), x.size(), w.size()});

  const KernelTable& scalar = reference();
  scalar.conv_fwd(s, 0, s.oc, x, w, added, expected[0],
                  workspace(scalar.conv_fwd_workspace_floats(s)));
  scalar.conv_dgrad(s, 0, s.c, dy, w, expected[1],
                    workspace(scalar.conv_dgrad_workspace_floats(s)));
  scalar.conv_wgrad(s, 0, s.oc, x, dy, expected[2],
                    workspace(scalar.conv_wgrad_workspace_floats(s)));
  device().conv_fwd(kStream, s, x, w, added, actual[0],
                    workspace(device().conv_fwd_workspace_floats(s)));
  device().conv_dgrad(kStream, s, dy, w, actual[1],
                      workspace(device().conv_dgrad_workspace_floats(s)));
  device().conv_wgrad(kStream, s, x, dy, actual[2],
                      workspace(device().conv_wgrad_workspace_floats(s)));
  check_same(text(s), expected, actual);
}

ConvShape random_shape(Random& random) {
  ConvShape s;
  s.n = random.integer(1, 3);
  s.kh = random.integer(1, 5);
  s.kw = random.integer(1, 5);
  s.stride = random.integer(1, 3);
  s.pad = random.integer(0, 3);
  s.h = s.kh + random.integer(0, 9);
  s.w = s.kw + random.integer(0, 20);
  return s;
}
// Channels that are read four at a time, or not.
std::int64_t channels(Random& random, std::int64_t most) {
  return random.coin() ? 4 * random.integer(1, most / 4) : random.integer(1, most);
}

// Forward and data gradient of a large convolution: all of it on the device, and one image of it
// with the slow reference.
void check_one_image(Random& random, const ConvShape& s) {
  const std::int64_t x_image = s.h * s.w * s.c, y_image = s.oh() * s.ow() * s.oc;
  const Floats x = mixed(random, s.n * x_image), w = mixed(random, s.oc * s.kh * s.kw * s.c);
  const Floats dy = mixed(random, s.n * y_image), bias = random.normals(s.oc);
  Floats y(s.n * y_image), dx(s.n * x_image);
  device().conv_fwd(kStream, s, x, w, bias, y, workspace(device().conv_fwd_workspace_floats(s)));
  device().conv_dgrad(kStream, s, dy, w, dx, workspace(device().conv_dgrad_workspace_floats(s)));
  const std::int64_t image = random.integer(0, s.n - 1);
  ConvShape one = s;
  one.n = 1;
  const auto expected = outputs({y_image, x_image});
  const KernelTable& scalar = reference();
  scalar.conv_fwd(one, 0, s.oc, x + image * x_image, w, bias, expected[0],
                  workspace(scalar.conv_fwd_workspace_floats(one)));
  scalar.conv_dgrad(one, 0, s.c, dy + image * y_image, w, expected[1],
                    workspace(scalar.conv_dgrad_workspace_floats(one)));
  finish();
  std::vector<Floats> actual;
  actual.emplace_back(y_image, [p = y + image * y_image]() mutable { return *p++; });
  actual.emplace_back(x_image, [p = dx + image * x_image]() mutable { return *p++; });
  check_same(text(s) + " image " + std::to_string(image), expected, actual);
}

TEST_SUITE("gpu/cuda/conv") {
  TEST_CASE("any shape, stride and padding") {
    Random random(test::seed("cuda conv"));
    for (int i = 0; i < 60; ++i) {
      ConvShape s = random_shape(random);
      s.c = channels(random, 24);
      s.oc = channels(random, 48);
      check(random, s);
    }
  }

  TEST_CASE("groups of channels") {
    Random random(test::seed("cuda conv groups"));
    for (int i = 0; i < 30; ++i) {
      ConvShape s = random_shape(random);
      s.groups = random.integer(2, 5);
      s.c = s.groups * channels(random, 8);
      s.oc = s.groups * channels(random, 20);
      check(random, s);
    }
  }

  TEST_CASE("depthwise") {
    Random random(test::seed("cuda conv depthwise"));
    for (int i = 0; i < 30; ++i) {
      ConvShape s = random_shape(random);
      s.groups = s.c = s.oc = channels(random, 75) + 1;
      check(random, s);
    }
    // A weight gradient with more blocks than a run of 64 sums, and than two levels.
    check(random,
          {.n = 70, .h = 17, .w = 8, .c = 3, .oc = 3, .kh = 3, .kw = 3, .pad = 1, .groups = 3});
    check(random,
          {.n = 4100, .h = 3, .w = 3, .c = 4, .oc = 4, .kh = 2, .kw = 2, .pad = 1, .groups = 4});
  }

  TEST_CASE("one tap, with and without steps") {
    Random random(test::seed("cuda conv pointwise"));
    for (const std::int64_t stride : {1, 2, 3}) {
      check(random, {.n = 2, .h = 9, .w = 7, .c = 20, .oc = 36, .stride = stride});
      check(random, {.n = 2, .h = 9, .w = 7, .c = 13, .oc = 18, .stride = stride, .pad = 1});
      check(random, {.n = 2, .h = 9, .w = 7, .c = 12, .oc = 24, .stride = stride, .groups = 3});
    }
  }

  TEST_CASE("sums of several chunks of 512, and kernels larger than the image") {
    Random random(test::seed("cuda conv chunks"));
    check(random, {.n = 2, .h = 6, .w = 5, .c = 130, .oc = 140, .kh = 3, .kw = 3, .pad = 1});
    check(random,
          {.n = 1, .h = 7, .w = 7, .c = 64, .oc = 60, .kh = 3, .kw = 3, .stride = 2, .pad = 1});
    check(random,
          {.n = 5, .h = 20, .w = 20, .c = 3, .oc = 8, .kh = 7, .kw = 7, .stride = 2, .pad = 3});
    check(random,
          {.n = 2, .h = 3, .w = 3, .c = 5, .oc = 6, .kh = 7, .kw = 7, .stride = 2, .pad = 3});
  }

  TEST_CASE("on each size of tile") {
    Random random(test::seed("cuda conv tiles"));
    for (const std::int64_t side : {64, 128}) {
      INFO("side ", side);
      const std::int64_t n = side == 64 ? 9 : 17;
      const auto cut_side = [](const cuda::ProductShape& shape) {
        return cuda::cut_product(shape, true).side;
      };
      CHECK(cut_side({.m = n * 33 * 34, .n = side, .k = 8}) == side);
      check(random, {.n = n, .h = 32, .w = 32, .c = 4, .oc = side, .kh = 2, .kw = 1, .pad = 1});
      CHECK(cut_side({.m = n * 32 * 32, .n = side, .k = 8}) == side);
      check(random, {.n = n, .h = 32, .w = 32, .c = side, .oc = 4, .kh = 2, .kw = 1, .pad = 1});
      CHECK(cut_side({.m = 9 * side, .n = 15 * side, .k = 18}) == side);
      check(random,
            {.n = 1, .h = 4, .w = 3, .c = side, .oc = 9 * side, .kh = 3, .kw = 5, .pad = 2});
    }
  }

  TEST_CASE("the largest tile with several chunks, made at the same time and one after the other") {
    Random random(test::seed("cuda conv chunks of the largest tile"));
    const auto is_cut = [](const cuda::ProductShape& shape, bool in_turn) {
      const cuda::ProductCut cut = cuda::cut_product(shape, true);
      return cut.side == 128 && (cut.at_once == 0) == in_turn;
    };
    // Forward, data gradient, weight gradient.
    const std::int64_t pixels = 87 * 87, k = 9 * 128;
    CHECK(is_cut({.m = pixels, .n = 128, .k = k}, false));
    CHECK(is_cut({.m = 128, .n = k, .k = pixels}, false));
    check(random, {.h = 87, .w = 87, .c = 128, .oc = 128, .kh = 3, .kw = 3, .pad = 1});
    // Forward, data gradient.
    CHECK(is_cut({.m = 9 * 61 * 65, .n = 128, .k = 5 * 128}, true));
    check_one_image(random,
                    {.n = 9, .h = 65, .w = 65, .c = 128, .oc = 128, .kh = 5, .kw = 1, .pad = 0});
  }
}

}  // namespace
}  // namespace es::gpu::testing
