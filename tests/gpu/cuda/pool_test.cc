#include <cstring>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

std::int64_t channels(Random& random) {
  return random.coin() ? 4 * random.integer(1, 6) : random.integer(1, 19);
}

PoolShape random_pool(Random& random) {
  PoolShape s{.n = random.integer(1, 3), .c = channels(random)};
  const bool wide = random.integer(0, 9) == 0;  // as many cells as a max pool may have
  s.kh = random.integer(1, wide ? 2 : 4);
  s.kw = wide ? kMaxPoolCells / s.kh : random.integer(1, 4);
  s.h = s.kh + random.integer(0, 8);
  s.w = s.kw + random.integer(0, 8);
  s.stride_h = random.integer(1, 3);
  s.stride_w = random.integer(1, 3);
  s.pad_h = random.integer(0, s.kh - 1);
  s.pad_w = random.integer(0, s.kw - 1);
  return s;
}

// Few different values, so that a window has several maxima.
Floats with_ties(Random& random, std::int64_t n) {
  constexpr float kValues[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, NAN, INFINITY, -INFINITY};
  return Floats(n, [&] { return kValues[random.integer(0, std::ssize(kValues) - 1)]; });
}

TEST_SUITE("gpu/cuda/pool") {
  TEST_CASE("max pooling has the bits and the winners of the scalar class") {
    Random random(test::seed("device max pool"));
    for (int trial = 0; trial < 150; ++trial) {
      const PoolShape s = random_pool(random);
      const std::int64_t in = s.n * s.h * s.w * s.c, out_size = s.n * s.oh() * s.ow() * s.c;
      const Floats x = trial % 3 == 0 ? with_ties(random, in) : mixed(random, in);
      const Floats dy = mixed(random, out_size);
      auto out = outputs({out_size, in}), on_device = outputs({out_size, in});
      const GuardedBytes argmax(static_cast<std::size_t>(out_size));
      const GuardedBytes device_argmax(static_cast<std::size_t>(out_size));
      reference().max_pool_fwd(s, x, out[0], argmax.data());
      reference().max_pool_bwd(s, dy, argmax.data(), out[1]);
      device().max_pool_fwd(kStream, s, x, on_device[0], device_argmax.data());
      device().max_pool_bwd(kStream, s, dy, argmax.data(), on_device[1]);
      check_same(shaped("max pool", s.kh, s.kw), out, on_device);
      CHECK(std::memcmp(argmax.data(), device_argmax.data(), argmax.size()) == 0);
    }
  }

  TEST_CASE("average pooling has the bits of the scalar class") {
    Random random(test::seed("device average pool"));
    for (int trial = 0; trial < 150; ++trial) {
      const PoolShape s = random_pool(random);
      const std::int64_t in = s.n * s.h * s.w * s.c, out_size = s.n * s.oh() * s.ow() * s.c;
      const Floats x = mixed(random, in), dy = mixed(random, out_size);
      auto out = outputs({out_size, in}), on_device = outputs({out_size, in});
      reference().avg_pool_fwd(s, x, out[0]);
      reference().avg_pool_bwd(s, dy, out[1]);
      device().avg_pool_fwd(kStream, s, x, on_device[0]);
      device().avg_pool_bwd(kStream, s, dy, on_device[1]);
      check_same(shaped("average pool", s.kh, s.kw), out, on_device);
    }
  }

  TEST_CASE("adaptive average pooling has the bits of the scalar class") {
    Random random(test::seed("device adaptive pool"));
    for (int trial = 0; trial < 150; ++trial) {
      AdaptivePoolShape s{.n = random.integer(1, 3), .h = random.integer(1, 12)};
      s.w = random.integer(1, 12);
      s.c = channels(random);
      s.oh = random.integer(1, 9);
      s.ow = random.integer(1, 9);
      const std::int64_t in = s.n * s.h * s.w * s.c, out_size = s.n * s.oh * s.ow * s.c;
      const Floats x = mixed(random, in), dy = mixed(random, out_size);
      auto out = outputs({out_size, in}), on_device = outputs({out_size, in});
      reference().adaptive_avg_pool_fwd(s, x, out[0]);
      reference().adaptive_avg_pool_bwd(s, dy, out[1]);
      device().adaptive_avg_pool_fwd(kStream, s, x, on_device[0]);
      device().adaptive_avg_pool_bwd(kStream, s, dy, on_device[1]);
      check_same(shaped("adaptive pool", s.oh, s.ow), out, on_device);
    }
  }

  TEST_CASE("global average pooling has the bits of the scalar class") {
    Random random(test::seed("device global pool"));
    for (const std::int64_t hw : {1, 49, 64, 65, 200, 4096, 4100}) {
      const std::int64_t n = random.integer(1, 4), c = channels(random), in = n * hw * c;
      const Floats x = mixed(random, in), dy = mixed(random, n * c);
      auto out = outputs({n * c, in}), on_device = outputs({n * c, in});
      const Floats ws = workspace(reference().global_avg_pool_workspace_floats(hw, c));
      reference().global_avg_pool_fwd(n, hw, c, x, out[0], ws);
      reference().global_avg_pool_bwd(n, hw, c, dy, out[1]);
      const Floats device_ws = workspace(device().global_avg_pool_workspace_floats(n, hw, c));
      device().global_avg_pool_fwd(kStream, n, hw, c, x, on_device[0], device_ws);
      device().global_avg_pool_bwd(kStream, n, hw, c, dy, on_device[1]);
      check_same(shaped("global pool", hw, c), out, on_device);
    }
  }

  TEST_CASE("the gradient of upsampling has the bits of the scalar class") {
    Random random(test::seed("device upsample"));
    for (int trial = 0; trial < 60; ++trial) {
      const std::int64_t n = random.integer(1, 3), h = random.integer(1, 9);
      const std::int64_t w = random.integer(1, 9), c = channels(random);
      const Floats dy = mixed(random, 4 * n * h * w * c);
      auto out = outputs({n * h * w * c}), on_device = outputs({n * h * w * c});
      reference().upsample2_bwd(n, h, w, c, dy, out[0]);
      device().upsample2_bwd(kStream, n, h, w, c, dy, on_device[0]);
      check_same(shaped("upsample", h, w), out, on_device);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
