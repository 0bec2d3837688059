#include <array>
#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

struct ConvData {
  ConvData(Random& random, const ConvShape& s)
      : x(random.normals(s.n * s.h * s.w * s.c)),
        w(random.normals(s.oc * s.kh * s.kw * (s.c / s.groups))),
        dy(random.normals(s.n * s.oh() * s.ow() * s.oc)),
        bias(random.normals(s.oc)),
        has_bias(random.coin()),
        cut(random.integer(0, s.oc)),
        output_cut(s.groups == 1 ? random.integer(0, s.oc) : 0),
        input_cut(s.groups == 1 ? random.integer(0, s.c) : 0) {}
  Floats x, w, dy, bias;
  bool has_bias;
  std::int64_t cut;  // The output channel at which the weight gradient is split.
  // The channels at which the forward pass and the data gradient are split.
  std::int64_t output_cut, input_cut;
};

// The shape whose workspace a range of channels needs.
ConvShape with(ConvShape s, std::int64_t ConvShape::*channels, std::int64_t count) {
  s.*channels = count;
  return s;
}

// Forward, data gradient and weight gradient, each in two ranges of channels.
std::vector<Floats> run(const KernelTable& table, const ConvShape& s, const ConvData& data) {
  std::vector<Floats> out;
  const auto ranges = [](std::int64_t cut, std::int64_t count) {
    return std::array{std::pair{cut, count}, std::pair{std::int64_t{0}, cut}};
  };
  Floats& y = out.emplace_back(data.dy.size());
  for (const auto& [begin, end] : ranges(data.output_cut, s.oc)) {
    if (begin == end) continue;
    Floats ws = workspace(table.conv_fwd_workspace_floats(with(s, &ConvShape::oc, end - begin)));
    table.conv_fwd(s, begin, end, data.x, data.w, data.has_bias ? data.bias.data() : nullptr, y,
                   ws);
  }
  Floats& dx = out.emplace_back(data.x.size());
  for (const auto& [begin, end] : ranges(data.input_cut, s.c)) {
    if (begin == end) continue;
    Floats ws = workspace(table.conv_dgrad_workspace_floats(with(s, &ConvShape::c, end - begin)));
    table.conv_dgrad(s, begin, end, data.dy, data.w, dx, ws);
  }
  Floats& dw = out.emplace_back(data.w.size());
  for (const auto& [begin, end] : ranges(data.cut, s.oc)) {
    Floats ws = workspace(table.conv_wgrad_workspace_floats(s));
    table.conv_wgrad(s, begin, end, data.x, data.dy, dw, ws);
  }
  return out;
}

// All three passes in double precision from one definition: y += x * w for each tap in the image.
void check_against_double(const ConvShape& s, const ConvData& data,
                          const std::vector<Floats>& out) {
  std::vector<Dot> y(data.dy.size()), dx(data.x.size()), dw(data.w.size());
  const std::int64_t cg = s.c / s.groups, ocg = s.oc / s.groups;
  for (std::int64_t i = 0; i < data.dy.size(); ++i) {
    const std::int64_t oc = i % s.oc, ow = i / s.oc % s.ow(), oh = i / s.oc / s.ow() % s.oh();
    const std::int64_t n = i / s.oc / s.ow() / s.oh();
    for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
      const std::int64_t h = oh * s.stride + t / s.kw - s.pad;
      const std::int64_t w = ow * s.stride + t % s.kw - s.pad;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      for (std::int64_t c = 0; c < cg; ++c) {
        const std::int64_t xi = ((n * s.h + h) * s.w + w) * s.c + oc / ocg * cg + c;
        const std::int64_t wi = (oc * s.kh * s.kw + t) * cg + c;
        y[i].step(data.x[xi], data.w[wi]);
        dx[xi].step(data.dy[i], data.w[wi]);
        dw[wi].step(data.dy[i], data.x[xi]);
      }
    }
    if (data.has_bias) y[i].step(data.bias[oc], 1.0);
  }
  const std::vector<Dot>* expected[] = {&y, &dx, &dw};
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t i = 0; i < expected[pass]->size(); ++i) {
      const Dot& dot = (*expected[pass])[i];
      check_near(out[pass][i], dot.sum, dot.bound(), text(s) + ", pass " + std::to_string(pass));
    }
  }
}

// Products that underflow to -0, whose sum is +0 as that of DOT is.
void check_underflow(Random& random, const ConvShape& s) {
  ConvData data(random, s);
  data.has_bias = false;
  const auto fill = [](const Floats& x, float value) { std::fill_n(x.data(), x.size(), value); };
  fill(data.x, -0x1p-100f);
  fill(data.w, 0x1p-100f);
  for (const float dy : {-0x1p-100f, 0x1p-100f}) {
    fill(data.dy, dy);
    const auto out =
        same_in_all_classes(text(s), [&](const KernelTable& table) { return run(table, s, data); });
    CHECK(!std::signbit(out[0][0]));
  }
}

void check_shape(Random& random, const ConvShape& s) {
  const ConvData data(random, s);
  const auto out =
      same_in_all_classes(text(s), [&](const KernelTable& table) { return run(table, s, data); });
  check_against_double(s, data, out);
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

TEST_SUITE("gpu/canonical/conv") {
  TEST_CASE("every class convolves any shape, stride and padding to the same bits") {
    Random random(test::seed("conv"));
    for (int i = 0; i < 40; ++i) {
      ConvShape s = random_shape(random);
      s.c = random.integer(1, 20);
      s.oc = random.integer(1, 40);
      check_shape(random, s);
    }
  }

  TEST_CASE("every class convolves groups of channels to the same bits") {
    Random random(test::seed("conv groups"));
    for (int i = 0; i < 30; ++i) {
      ConvShape s = random_shape(random);
      s.groups = random.integer(2, 5);
      s.c = s.groups * random.integer(1, 20);
      s.oc = s.groups * random.integer(1, 20);
      check_shape(random, s);
    }
    // Several regions of pixels, each with all groups, and chunks of 512 pixels.
    for (const std::int64_t stride : {1, 2}) {
      ConvShape s{.n = 3, .h = 30, .w = 29, .c = 48, .oc = 72, .kh = 3, .kw = 3, .pad = 1};
      s.stride = stride;
      s.groups = 6;
      check_shape(random, s);
    }
  }

  TEST_CASE("every class convolves depthwise to the same bits") {
    Random random(test::seed("conv depthwise"));
    for (int i = 0; i < 30; ++i) {
      ConvShape s = random_shape(random);
      s.groups = s.c = s.oc = random.integer(2, 75);
      check_shape(random, s);
    }
    check_underflow(
        random,
        {.n = 2, .h = 9, .w = 8, .c = 35, .oc = 35, .kh = 3, .kw = 3, .pad = 1, .groups = 35});
    // A weight gradient with more blocks than one run of 64 sums.
    check_shape(
        random,
        {.n = 70, .h = 17, .w = 8, .c = 3, .oc = 3, .kh = 3, .kw = 3, .pad = 1, .groups = 3});
    // Large filters, whose taps or pixels are computed together, also on images that are smaller.
    for (const std::int64_t side : {5, 7}) {
      ConvShape s{.n = 2, .h = 13, .w = 19, .c = 35, .oc = 35, .kh = side, .kw = side};
      s.groups = s.c;
      for (const std::int64_t stride : {1, 2}) {
        for (const std::int64_t pad : {std::int64_t{0}, side / 2, side}) {
          s.stride = stride;
          s.pad = pad;
          check_shape(random, s);
        }
      }
      s = {.n = 3, .h = 2, .w = 3, .c = 18, .oc = 18, .kh = side, .kw = side, .pad = side / 2};
      s.groups = s.c;
      check_shape(random, s);
    }
  }

  TEST_CASE("sums longer than a chunk of 512 agree in all three passes") {
    Random random(test::seed("conv chunks"));
    check_shape(random, {.n = 3, .h = 19, .w = 18, .c = 65, .oc = 70, .kh = 3, .kw = 3, .pad = 1});
    check_shape(
        random,
        {.n = 2, .h = 30, .w = 29, .c = 130, .oc = 33, .kh = 2, .kw = 3, .stride = 2, .pad = 1});
    check_shape(random, {.n = 2, .h = 5, .w = 6, .c = 40, .oc = 300, .kh = 3, .kw = 3, .pad = 1});
    check_shape(random, {.n = 1, .h = 24, .w = 26, .c = 12, .oc = 520, .groups = 2});
    // First layers, and 1x1 filters of few channels, whose weight gradients have kernels of their
    // own.
    check_shape(random, {.n = 2, .h = 33, .w = 34, .c = 3, .oc = 37, .kh = 3, .kw = 3, .pad = 1});
    check_shape(random,
                {.n = 2, .h = 64, .w = 60, .c = 3, .oc = 29, .kh = 4, .kw = 4, .stride = 2});
    check_shape(
        random,
        {.n = 2, .h = 45, .w = 50, .c = 3, .oc = 37, .kh = 7, .kw = 7, .stride = 2, .pad = 3});
    check_shape(random, {.n = 3, .h = 16, .w = 17, .c = 16, .oc = 96});
    check_shape(random, {.n = 2, .h = 21, .w = 26, .c = 27, .oc = 45});
    check_shape(random, {.n = 2, .h = 21, .w = 26, .c = 5, .oc = 30});
  }

  TEST_CASE("images that are processed in several regions and weights in several slices agree") {
    Random random(test::seed("conv regions"));
    // More columns of weights than a slice holds; several regions of several images.
    check_shape(random, {.n = 23, .h = 10, .w = 9, .c = 70, .oc = 35, .kh = 3, .kw = 3, .pad = 1});
    check_shape(random, {.n = 1, .h = 6, .w = 5, .c = 300, .oc = 601, .kh = 2, .kw = 2, .pad = 1});
    // Weights that fit no cache; their gradient is written past the caches.
    check_shape(random, {.n = 1, .h = 2, .w = 3, .c = 512, .oc = 461, .kh = 3, .kw = 3, .pad = 1});
    // A region of rows of one image.
    check_shape(random, {.n = 2, .h = 70, .w = 60, .c = 40, .oc = 7, .kh = 3, .kw = 3, .pad = 1});
  }

  TEST_CASE("a filter larger than the image and a stride larger than the filter agree") {
    Random random(test::seed("conv extremes"));
    check_shape(random, {.n = 2, .h = 1, .w = 2, .c = 5, .oc = 3, .kh = 5, .kw = 5, .pad = 2});
    check_shape(random, {.n = 2, .h = 9, .w = 8, .c = 5, .oc = 3, .kh = 1, .kw = 2, .stride = 3});
    check_shape(random,
                {.n = 1, .h = 3, .w = 3, .c = 2, .oc = 2, .kh = 1, .kw = 1, .stride = 4, .pad = 3});
  }
}

}  // namespace
}  // namespace es::gpu::testing
