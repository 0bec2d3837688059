// Chains, sums, scaling, zeros and copies of blocks.
#include <cstring>
#include <numeric>

#include "gpu/canonical/move.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

constexpr DropoutKey kKey{.seed = 0x0123456789abcdef, .step = 77, .rank = 5};
// The array, in memory that the device can read.
const DropoutKey* visible_key() {
  static const Numbers<DropoutKey> key(1, kKey);
  return key.data();
}
constexpr std::int64_t kStagesMost = 16;

constexpr ChainKind kKinds[] = {
    ChainKind::kScale,    ChainKind::kAdd,       ChainKind::kMul,         ChainKind::kAddRow,
    ChainKind::kRelu,     ChainKind::kLeakyRelu, ChainKind::kGelu,        ChainKind::kTanh,
    ChainKind::kSigmoid,  ChainKind::kDropout,   ChainKind::kReluGrad,    ChainKind::kLeakyReluGrad,
    ChainKind::kGeluGrad, ChainKind::kTanhGrad,  ChainKind::kSigmoidGrad, ChainKind::kRoundBf16};

ChainStage stage_of(Random& random, ChainKind kind, const Floats& operand) {
  ChainStage stage{.kind = kind, .operand = operand, .factor = random.normal()};
  if (kind == ChainKind::kAddRow) stage.columns = random.integer(1, operand.size());
  if (kind == ChainKind::kDropout) {
    stage.columns = random.coin() ? 1 : random.integer(1, operand.size());
    const auto threshold = static_cast<std::uint32_t>(random.integer(0, 0xffffffff));
    stage.dropout = {.threshold = random.integer(0, 9) == 0 ? 0 : threshold,
                     .op = static_cast<std::uint32_t>(random.integer(0, 9)),
                     .factor = 1.25f};
  }
  return stage;
}

void check_chain(const std::string& what, const Floats& x, const std::vector<ChainStage>& stages) {
  const std::int64_t n = x.size(), count = std::ssize(stages);
  auto out = outputs({n}), on_device = outputs({n});
  reference().chain(0, n, x, stages.data(), count, kKey, out[0]);
  device().chain(kStream, n, x, stages.data(), count, {}, visible_key(), on_device[0]);
  check_same(what, out, on_device);
}

// The numbers as bf16, in memory that the device can read.
Numbers<Bf16> as_bf16(const Floats& x) {
  Numbers<Bf16> numbers(static_cast<std::size_t>(x.size()));
  reference().narrow(x.size(), x, numbers.data());
  return numbers;
}
Floats as_floats(const Numbers<Bf16>& numbers) {
  finish();
  Floats x(std::ssize(numbers));
  reference().widen(std::ssize(numbers), numbers.data(), x);
  return x;
}
float* address(Numbers<Bf16>& numbers) {
  return reinterpret_cast<float*>(numbers.data());
}

void check_uniform(std::int64_t n, std::uint32_t op) {
  auto out = outputs({n}), on_device = outputs({n});
  reference().uniform(0, n, op, kKey, out[0]);
  device().uniform(kStream, n, op, visible_key(), on_device[0]);
  check_same(shaped("uniform", n, op), out, on_device);
}

BlockCopy random_copy(Random& random) {
  BlockCopy copy;
  const std::int64_t pack = random.coin() ? 4 : 1;  // Whether whole packs are moved.
  std::int64_t source = pack, target = pack;
  std::vector<std::size_t> order(kMoveRank);
  std::iota(order.begin(), order.end(), 0);
  if (pack == 1) random.shuffle(order);  // The dimensions have another order in the target.
  for (std::size_t d = kMoveRank; d-- > 0;) copy.size[d] = random.integer(1, 3);
  if (pack == 4) copy.size[kMoveRank - 1] = 4 * random.integer(1, 5);
  for (std::size_t d = kMoveRank; d-- > 0;) {
    const bool innermost = pack == 4 && d == kMoveRank - 1;
    copy.source_stride[d] = innermost ? 1 : source;
    source = innermost ? copy.size[d] : source * copy.size[d] + pack * random.integer(0, 1);
    const std::size_t e = pack == 4 ? d : order[d];
    copy.target_stride[e] = innermost ? 1 : target;
    target = innermost ? copy.size[e] : target * copy.size[e] + pack * random.integer(0, 1);
  }
  copy.source_offset = pack * random.integer(0, 2);
  copy.target_offset = pack * random.integer(0, 2);
  return copy;
}

// The number of words of an array in the copy.
std::int64_t extent(const BlockCopy& copy, std::int64_t offset,
                    const std::array<std::int64_t, kMoveRank>& stride) {
  std::int64_t last = offset;
  for (std::size_t d = 0; d < kMoveRank; ++d) last += (copy.size[d] - 1) * stride[d];
  return last + 1;
}

TEST_SUITE("gpu/cuda/elementwise") {
  TEST_CASE("every stage has the bits of the scalar class for all kinds of floats") {
    Random random(test::seed("device stages"));
    for (const ChainKind kind : kKinds) {
      const std::int64_t n = random.integer(3000, 9000);
      const Floats x = any_floats(random, n), operand = any_floats(random, n);
      for (int i = 0; i < 4; ++i) {
        check_chain("kind " + std::to_string(static_cast<int>(kind)), x,
                    {stage_of(random, kind, operand)});
      }
    }
  }

  TEST_CASE("chains of any length have the bits of the scalar class") {
    Random random(test::seed("device chains"));
    for (int trial = 0; trial < 200; ++trial) {
      const std::int64_t n = random.integer(1, random.coin() ? 200 : 5000);
      const Floats x = mixed(random, n), a = mixed(random, n), b = random.normals(n);
      std::vector<ChainStage> stages;
      for (std::int64_t s = random.integer(0, kStagesMost); s > 0; --s) {
        const ChainKind kind = kKinds[random.integer(0, std::ssize(kKinds) - 1)];
        stages.push_back(stage_of(random, kind, random.coin() ? a : b));
      }
      check_chain(shaped("chain", n, std::ssize(stages)), x, stages);
    }
  }

  TEST_CASE("a chain reads and writes bf16 numbers") {
    Random random(test::seed("device bf16 chains"));
    for (int trial = 0; trial < 100; ++trial) {
      const std::int64_t n = random.integer(1, random.coin() ? 200 : 5000);
      const Floats wide[] = {any_floats(random, n), mixed(random, n)};
      Numbers<Bf16> half[] = {as_bf16(wide[0]), as_bf16(wide[1])};
      const Floats rounded[] = {as_floats(half[0]), as_floats(half[1])};
      std::vector<ChainStage> stages, on_device;
      cuda::Bf16Arrays bf16;
      const bool x_is_bf16 = random.coin(), y_is_bf16 = random.coin();
      if (x_is_bf16) bf16.in |= 1;
      if (y_is_bf16) bf16.out |= 1;
      for (std::int64_t s = random.integer(0, kStagesMost); s > 0; --s) {
        const ChainKind kind = kKinds[random.integer(0, std::ssize(kKinds) - 1)];
        const std::size_t k = random.coin() ? 1 : 0;
        const bool is_bf16 = kind != ChainKind::kAddRow && random.coin();
        stages.push_back(stage_of(random, kind, is_bf16 ? rounded[k] : wide[k]));
        on_device.push_back(stages.back());
        if (!is_bf16) continue;
        on_device.back().operand = address(half[k]);
        bf16.in |= 1U << stages.size();
      }
      const std::int64_t count = std::ssize(stages);
      auto out = outputs({n}), there = outputs({n});
      reference().chain(0, n, x_is_bf16 ? rounded[0] : wide[0], stages.data(), count, kKey, out[0]);
      Numbers<Bf16> narrow(static_cast<std::size_t>(n));
      device().chain(kStream, n, x_is_bf16 ? address(half[0]) : wide[0].data(), on_device.data(),
                     count, bf16, visible_key(), y_is_bf16 ? address(narrow) : there[0].data());
      std::vector<Floats> expected, found;
      expected.push_back(y_is_bf16 ? as_floats(as_bf16(out[0])) : copy(out[0]));
      found.push_back(y_is_bf16 ? as_floats(narrow) : copy(there[0]));
      check_same(shaped("bf16 chain", n, count), expected, found);
    }
  }

  TEST_CASE("uniform numbers have the bits of the scalar class") {
    Random random(test::seed("device uniform"));
    for (const std::int64_t n : {1, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 100000})
      check_uniform(n, static_cast<std::uint32_t>(random.integer(0, 0xffffffff)));
    for (int trial = 0; trial < 50; ++trial)
      check_uniform(random.integer(1, 5000), static_cast<std::uint32_t>(trial));
  }

  TEST_CASE("the result of a chain may be its input or an operand") {
    Random random(test::seed("device chain in place"));
    for (const std::int64_t n : {1, 127, 129, 2500}) {
      const Floats x = random.normals(n), a = random.normals(n);
      std::vector<ChainStage> stages = {{.kind = ChainKind::kScale, .factor = 2.0f},
                                        {.kind = ChainKind::kMul, .operand = a},
                                        {.kind = ChainKind::kGelu},
                                        {.kind = ChainKind::kAdd, .operand = a}};
      auto out = outputs({n});
      reference().chain(0, n, x, stages.data(), 4, kKey, out[0]);
      std::vector<Floats> in_place;
      in_place.push_back(copy(x));
      device().chain(kStream, n, in_place[0], stages.data(), 4, {}, visible_key(), in_place[0]);
      check_same("y is x", out, in_place);
      const Floats operand = copy(a);
      stages[1].operand = stages[3].operand = operand;
      device().chain(kStream, n, x, stages.data(), 4, {}, visible_key(), operand);
      in_place.clear();
      in_place.push_back(copy(operand));
      check_same("y is an operand", out, in_place);
    }
  }

  TEST_CASE("sums and scaling have the bits of the scalar class, in place too") {
    Random random(test::seed("device sums"));
    for (const std::int64_t n : {1, 2, 3, 4, 5, 255, 1024, 1030, 4100}) {
      const Floats a = any_floats(random, n), b = any_floats(random, n);
      auto out = outputs({n, n}), on_device = outputs({n, n});
      reference().add(n, a, b, out[0]);
      reference().scale(n, a, 0.3f, out[1]);
      device().scale(kStream, n, a, 0.3f, on_device[1]);
      device().add(kStream, n, a, b, a);
      finish();
      std::memcpy(on_device[0], a, static_cast<std::size_t>(n) * sizeof(float));
      check_same(shaped("add, scale", n, 1), out, on_device);
    }
  }

  TEST_CASE("zeros are written to all words of the range and to no others") {
    for (const std::int64_t n : {1, 3, 256, 257, 5000}) {
      Floats y(n + 1);
      device().fill_zero(kStream, n, y);
      finish();
      std::int64_t set = 0;
      for (std::int64_t i = 0; i < n; ++i) set += std::bit_cast<std::uint32_t>(y[i]) == 0 ? 0 : 1;
      CHECK(set == 0);
      CHECK(std::isnan(y[n]));
    }
  }

  TEST_CASE("copies of blocks move the words that run_move moves") {
    Random random(test::seed("device block copy"));
    for (int trial = 0; trial < 300; ++trial) {
      const BlockCopy blocks = random_copy(random);
      const auto round = [](std::int64_t n) { return (n + 3) / 4 * 4; };
      const Floats source =
          any_floats(random, round(extent(blocks, blocks.source_offset, blocks.source_stride)));
      const std::int64_t size = round(extent(blocks, blocks.target_offset, blocks.target_stride));
      auto out = outputs({size}), on_device = outputs({size});
      float* from[] = {source};
      float* to[] = {out[0]};
      run_move({simplified(blocks)}, from, to, 0, 1);
      device().block_copy(kStream, blocks, source, on_device[0]);
      finish();
      CHECK(std::memcmp(out[0], on_device[0], static_cast<std::size_t>(size) * sizeof(float)) == 0);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
