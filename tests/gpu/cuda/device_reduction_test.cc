// Sums over workers on a device have the same bytes as on the host, wherever their parts are.
#include "gpu/cuda/device_reduction.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/gpu/cuda/shuffled_device.h"
#include "tests/gpu/cuda/small_device.h"
#include "tests/gpu/cuda/test_device.h"
#include "tests/support/seed.h"

namespace es::gpu::cuda {
namespace {

using Floats = std::vector<float>;

// The magnitudes differ strongly, so that another order becomes visible.
Floats random_floats(std::mt19937_64& random, std::int64_t count) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-12, 12);
  Floats floats(static_cast<std::size_t>(count));
  for (float& x : floats) x = std::ldexp(normal(random), exponent(random));
  return floats;
}

// Ranges of one worker each that cover [0, max_p).
std::vector<RankRange> random_split(std::mt19937_64& random, std::uint32_t max_p) {
  std::vector<RankRange> ranges;
  for (std::uint32_t begin = 0; begin < max_p;) {
    const auto size = 1 + static_cast<std::uint32_t>(random() % (max_p - begin));
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

// The parts of a bucket. Each is in host memory, and some are on the device too.
struct Parts {
  std::vector<Floats> host;
  std::vector<DevicePool::Block> blocks;  // nullptr for parts that are not.
};

Parts make_parts(std::mt19937_64& random, std::size_t count, std::int64_t floats, Device& device,
                 Stream stream, DevicePool& pool) {
  Parts parts;
  for (std::size_t i = 0; i < count; ++i) {
    const Floats& data = parts.host.emplace_back(random_floats(random, floats));
    const std::size_t bytes = data.size() * sizeof(float);
    auto block = random() % 3 != 0 ? pool.take(bytes) : nullptr;
    if (block) device.copy_in(stream, block.get(), data.data(), bytes);
    parts.blocks.push_back(std::move(block));
  }
  REQUIRE(device.synchronise(stream).ok());
  return parts;
}

const float* on_host(const Parts& parts, std::size_t i) {
  return parts.host[i].data();
}
const float* where_it_is(const Parts& parts, std::size_t i) {
  if (!parts.blocks[i]) return on_host(parts, i);
  return reinterpret_cast<const float*>(parts.blocks[i].get());
}

using Place = const float* (*)(const Parts&, std::size_t);

// The sum of nodes of the tree, or of chains of workers.
struct Case {
  std::uint32_t max_p = 1;
  std::vector<RankRange> ranges;  // of the parts
  GradientOrder order = GradientOrder::kTree;

  std::size_t parts() const { return ranges.size(); }
  void sum(const Parts& data, Place place, std::int64_t floats, float* workspace, float* out,
           Adder& adder) const {
    std::vector<GradientPart> parts;
    for (std::size_t i = 0; i < ranges.size(); ++i) parts.push_back({ranges[i], place(data, i)});
    reduce_parts(order, max_p, {0, max_p}, parts, floats, out, workspace, adder);
  }
};

Case random_case(std::mt19937_64& random, GradientOrder order) {
  Case c{.max_p = 1 + static_cast<std::uint32_t>(random() % 13), .ranges = {}, .order = order};
  for (const RankRange range : random_split(random, c.max_p)) {
    if (order == GradientOrder::kPerWorker)
      c.ranges.push_back(range);
    else
      for (const TreeNode node : maximal_nodes(range, c.max_p))
        c.ranges.push_back(covered_ranks(node, c.max_p));
  }
  return c;
}

Floats host_sum(const Case& c, const Parts& parts, std::int64_t floats) {
  Floats out(static_cast<std::size_t>(floats));
  Floats workspace(static_cast<std::size_t>(reduce_workspace_floats(c.max_p)));
  HostAdder host(kernel_table(CpuClass::kScalar));
  c.sum(parts, on_host, floats, workspace.data(), out.data(), host);
  return out;
}

Floats device_sum(const Case& c, const Parts& parts, std::int64_t floats, DeviceReduction& device) {
  const auto block = device.pool()->take(static_cast<std::size_t>(floats) * sizeof(float));
  REQUIRE(block);
  auto* const sum = reinterpret_cast<float*>(block.get());
  c.sum(parts, where_it_is, floats, device.workspace(), sum, device);
  Floats out(static_cast<std::size_t>(floats));
  device.copy_out(out.data(), sum, floats);
  REQUIRE(device.synchronise().ok());
  return out;
}

void check_sums(std::mt19937_64& random, Device& device, std::int64_t floats, int trials) {
  DeviceReduction reduction(device, 3 * floats);
  REQUIRE(reduction.provide(13).ok());
  REQUIRE(reduction.ready());
  const Stream stream = *device.make_stream();
  for (int trial = 0; trial < trials; ++trial)
    for (const GradientOrder order : {GradientOrder::kTree, GradientOrder::kPerWorker}) {
      const Case c = random_case(random, order);
      CAPTURE(c.max_p);
      CAPTURE(c.ranges.size());
      const Parts parts = make_parts(random, c.parts(), floats, device, stream, *reduction.pool());
      const Floats expected = host_sum(c, parts, floats);
      const Floats got = device_sum(c, parts, floats, reduction);
      CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
    }
  CHECK(reduction.pool()->taken() == 0);
}

TEST_SUITE("gpu/cuda/device_reduction") {
  TEST_CASE(
      "any division of the ranks, with parts on either side, has the bytes of the host's sum") {
    std::mt19937_64 random(test::seed("device reduction"));
    check_sums(random, *test::open_test_device(), 5000, 60);
  }

  TEST_CASE("arrays longer than a block") {
    std::mt19937_64 random(test::seed("device reduction long"));
    check_sums(random, *test::open_test_device(), (std::int64_t{1} << 20) + 37, 2);
  }

  TEST_CASE("a stream in any permitted order has the bytes of the host's sum") {
    const std::uint64_t seed = test::seed("device reduction shuffled");
    std::mt19937_64 random(seed);
    for (std::uint64_t trial = 0; trial < 5; ++trial) {
      test::ShuffledDevice::Counts counts;
      test::ShuffledDevice device(seed + trial, true, counts);
      check_sums(random, device, 300, 5);
    }
  }

  TEST_CASE("without room there are no blocks, and no data are lost") {
    test::SmallDevice device(std::size_t{1} << 20);
    DeviceReduction reduction(device, std::int64_t{1} << 20);
    CHECK(reduction.provide(4).ok());
    CHECK_FALSE(reduction.ready());
    CHECK(reduction.pool()->take(1) == nullptr);
    CHECK(device.check().ok());
  }

  TEST_CASE("memory is allocated once") {
    test::SmallDevice device(std::size_t{1} << 30);
    DeviceReduction reduction(device, 1000);
    CHECK(reduction.pool()->capacity() == 0);
    CHECK(reduction.provide(4).ok());
    const std::size_t left = device.free_bytes();
    CHECK(reduction.provide(4).ok());
    CHECK(device.free_bytes() == left);
    CHECK(reduction.pool()->capacity() == DeviceReduction::kPoolGradients * 1000 * sizeof(float) /
                                              DevicePool::kAlignment * DevicePool::kAlignment);
  }
}

}  // namespace
}  // namespace es::gpu::cuda
