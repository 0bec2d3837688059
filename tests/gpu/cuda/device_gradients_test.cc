// Sums over ESTs on a device give the same bytes as those of the CPU in host memory, for any number
// of sums for which device memory has room.
#include "gpu/cuda/device_gradients.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "gpu/cuda/device_executor.h"
#include "gpu/est/gradient_tree.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"
#include "tests/gpu/cuda/random_networks.h"
#include "tests/gpu/cuda/shuffled_device.h"
#include "tests/gpu/cuda/small_device.h"
#include "tests/gpu/cuda/test_device.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_gradients") {
  using namespace es::gpu;
  using es::RankRange;
  using es::VirtualRank;
  using es::test::SmallDevice;
  using es::test::StepRig;

  constexpr std::size_t kPlenty = std::size_t{1} << 30;

  struct Ranks {
    RankRange range;
    std::uint32_t max_p;
  };
  constexpr Ranks kRanges[] = {{{0, 1}, 1},   {{0, 16}, 16}, {{0, 11}, 11},
                               {{3, 14}, 16}, {{1, 2}, 5},   {{0, 9}, 13}};

  // The parts of the ESTs of a range, in rank order: every bucket of every part.
  struct Parts {
    std::vector<float> values;
    es::Status status;
  };

  // Copies the part of the whole sum that a device has to the host.
  es::Status fetch_whole(StepRunner & runner, const std::vector<Bucket>& buckets,
                         const AlignedBuffer& slot) {
    if (runner.updater() == nullptr) return {};
    std::vector<const float*> sums;
    for (const Bucket& b : buckets) {
      sums.push_back(slot.data() + b.begin);
      CHECK(std::isnan(slot.data()[b.begin]));
    }
    return runner.updater()->fetch_sums(sums);
  }

  // Runs the ESTs of a range. They differ in the draws of dropout and in a factor of their batch.
  Parts run_range(StepRunner & runner, StepRig & rig, RankRange range, std::uint32_t max_p,
                  GradientOrder order = GradientOrder::kTree) {
    Parts parts;
    std::vector<AlignedBuffer> slots(max_live_buffers(range, max_p, order),
                                     AlignedBuffer(rig.grads.floats()));
    const bool whole = range.size() == max_p;
    GradientTree tree(
        range, max_p, rig.buckets.size(),
        [&](const PartReady& node) {
          if (whole) return;
          const Bucket& b = rig.buckets[node.bucket];
          const float* const data = slots[node.slot].data();
          parts.values.insert(parts.values.end(), data + b.begin, data + b.end);
        },
        order);
    const std::vector<float> words = rig.words;
    for (VirtualRank rank = range.begin; rank < range.end && parts.status.ok(); ++rank) {
      LocalStep step = rig.step();
      step.key.rank = rank;
      const auto image =
          static_cast<std::size_t>(rig.graph().batch * rig.graph().layout.fields[0].words());
      for (std::size_t i = 0; i < image; ++i)
        rig.words[i] = words[i] * (1.0F + 0.125F * static_cast<float>(rank));
      step.gradient = {tree.begin_rank(rank),
                       [&](std::uint32_t slot) { return slots[slot].data(); }};
      const auto result = runner.run_local_step(step, [&](auto b) { tree.bucket_ready(b); });
      if (!result) parts.status = result.error();
    }
    rig.words = words;
    if (!whole || !parts.status.ok()) return parts;
    const AlignedBuffer& sum = slots[tree.part_slots().front()];
    parts.status = fetch_whole(runner, rig.buckets, sum);
    for (const Bucket& b : rig.buckets)
      parts.values.insert(parts.values.end(), sum.data() + b.begin, sum.data() + b.end);
    return parts;
  }

  bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  Graph network() {
    std::mt19937_64 random(7);
    return es::test::random_image_network(random, 6);
  }

  std::unique_ptr<StepRunner> on_device(const StepRig& rig, std::unique_ptr<cuda::Device> device,
                                        std::uint32_t sums = 0) {
    auto runner = cuda::DeviceExecutor::create(compile(network()), std::move(device), rig.buckets,
                                               nullptr, sums);
    ES_CHECK_MSG(runner.ok(), runner.ok() ? "" : runner.error().message);
    return *std::move(runner);
  }

  // A device with room for this number of sums.
  std::unique_ptr<SmallDevice> device_for_sums(const StepRig& rig, std::size_t sums) {
    auto all = std::make_unique<SmallDevice>(kPlenty);
    const SmallDevice* const device = all.get();
    const auto runner = on_device(rig, std::move(all));
    const std::size_t slot = rig.grads.floats() * sizeof(float);
    return std::make_unique<SmallDevice>(kPlenty - device->free_bytes() + sums * slot + slot / 2);
  }

  void check_parts(StepRunner & device, StepRig & rig) {
    for (const Ranks& of : kRanges) {
      CAPTURE(of.range.begin);
      CAPTURE(of.range.end);
      const Parts expected = run_range(*rig.executor, rig, of.range, of.max_p);
      const Parts got = run_range(device, rig, of.range, of.max_p);
      CHECK(got.status.ok());
      CHECK(same_bytes(got.values, expected.values));
    }
    const Parts chained = run_range(*rig.executor, rig, {2, 7}, 8, GradientOrder::kPerWorker);
    CHECK(same_bytes(run_range(device, rig, {2, 7}, 8, GradientOrder::kPerWorker).values,
                     chained.values));
  }

  TEST_CASE("parts of any range have the CPU's bytes, with room for any number of sums") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    REQUIRE(rig.buckets.size() > 2);
    for (const std::uint32_t sums : {0U, 1U, 2U}) {
      CAPTURE(sums);
      check_parts(*on_device(rig, es::test::open_test_device(), sums), rig);
    }
  }

  TEST_CASE("streams in any permitted order give the bytes of the CPU") {
    const std::uint64_t seed = es::test::seed("device gradients shuffled");
    StepRig rig(compile(network()), seed);
    for (const std::uint32_t sums : {0U, 1U, 2U})
      for (std::uint64_t trial = 0; trial < 8; ++trial) {
        CAPTURE(sums);
        CAPTURE(trial);
        es::test::ShuffledDevice::Counts counts;
        auto device =
            std::make_unique<es::test::ShuffledDevice>(seed + 10 * sums + trial, true, counts);
        check_parts(*on_device(rig, std::move(device), sums), rig);
      }
  }

  TEST_CASE("device memory holds one gradient and log2 sums, or fewer if there is no room") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const std::int64_t slot = rig.grads.floats();
    const Parts expected = run_range(*rig.executor, rig, {0, 16}, 16);
    for (const std::size_t room : {1U, 2U, 3U, 4U, 9U}) {
      CAPTURE(room);
      const auto device = on_device(rig, device_for_sums(rig, room));
      CHECK(device->gradient_memory().device_floats == slot);
      CHECK(same_bytes(run_range(*device, rig, {0, 16}, 16).values, expected.values));
      const auto kept = static_cast<std::int64_t>(std::min<std::size_t>(room, 4));
      CHECK(device->gradient_memory().device_floats == (1 + kept) * slot);
      CHECK(device->gradient_memory().pinned_floats == (4 - kept) * slot);
    }
  }

  TEST_CASE("without room for one sum, an EST that has to wait causes an error about memory") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const auto device = on_device(rig, device_for_sums(rig, 0));
    CHECK(run_range(*device, rig, {1, 2}, 2).status.ok());  // No EST waits.
    const es::Status status = run_range(*device, rig, {0, 2}, 2).status;
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message == "not enough memory for a sum of gradients over ESTs");
  }

  TEST_CASE("without device memory for the moments, updates run on the host") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const auto device = on_device(rig, device_for_sums(rig, 0));
    CHECK_FALSE(device->updater()->room_for(2));
    CHECK(device->slower_because().starts_with("updates run on the host"));
    CHECK(on_device(rig, device_for_sums(rig, 4))->updater()->room_for(2));
  }

  TEST_CASE("a gradient that is not merged does not change the sums that wait") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const auto expected = rig.step_bits();
    const std::vector<float> alone(rig.grads.data(), rig.grads.data() + rig.grads.floats());
    const auto device = on_device(rig, es::test::open_test_device());
    AlignedBuffer slots[2] = {AlignedBuffer(rig.grads.floats()), AlignedBuffer(rig.grads.floats())};
    const auto host = [&](std::uint32_t slot) { return slots[slot].data(); };
    const auto ignore = [](std::uint32_t) {};
    const std::uint32_t first[] = {0}, second[] = {1, 0};
    LocalStep step = rig.step();
    step.gradient = {{.slots = first, .leaves = false, .first = true, .kept_max = 1}, host};
    REQUIRE(device->run_local_step(step, ignore).ok());
    rig.grads = AlignedBuffer(rig.grads.floats());
    REQUIRE(device->run_local_step(rig.step(), ignore).ok());
    CHECK(std::memcmp(rig.grads.data(), alone.data(), rig.grads.bytes()) == 0);
    step.gradient = {{.slots = second, .leaves = true}, host};
    REQUIRE(device->run_local_step(step, ignore).ok());
    for (std::int64_t i = 0; i < rig.grads.floats(); ++i)
      REQUIRE(slots[0].data()[i] == alone[i] + alone[i]);
    CHECK(rig.step_bits() == expected);
  }

  // The gradient of every parameter at the end of the operator that writes it.
  class GradientObserver final : public OpObserver {
   public:
    explicit GradientObserver(StepRunner& runner) : runner_(runner) {}
    void begin_op(const Op&) override {}
    void end_op(const Op& op) override {
      if (op_def(op.kind).writes_weight_grad) add(op.weight);
      if (op_def(op.kind).writes_bias_grad) add(op.bias);
    }
    std::vector<float> seen;

   private:
    void add(ParamId param) {
      const auto values = runner_.gradient(param);
      seen.insert(seen.end(), values.begin(), values.end());
    }
    StepRunner& runner_;
  };

  TEST_CASE("an observer sees gradients when they are written, as on a CPU") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const auto device = on_device(rig, es::test::open_test_device());
    std::vector<std::vector<float>> seen;
    for (StepRunner* runner : {static_cast<StepRunner*>(rig.executor.get()), device.get()}) {
      GradientObserver observer(*runner);
      runner->set_observer(&observer);
      REQUIRE(runner->run_local_step(rig.step(), [](std::uint32_t) {}).ok());
      runner->set_observer(nullptr);
      seen.push_back(observer.seen);
    }
    CHECK_FALSE(seen[0].empty());
    CHECK(same_bytes(seen[1], seen[0]));
  }

  TEST_CASE("code that inspects a gradient sees it before the merge, and can change it") {
    StepRig rig(compile(network()), es::test::seed("device gradients"));
    const auto device = on_device(rig, es::test::open_test_device());
    for (StepRunner* runner : {static_cast<StepRunner*>(rig.executor.get()), device.get()}) {
      std::uint32_t next = 0;
      std::vector<float> seen;
      LocalStep step = rig.step();
      step.gradient.inspect = [&](std::uint32_t bucket, float* data) {
        CHECK(bucket == next++);
        seen.insert(seen.end(), data, data + rig.buckets[bucket].floats());
        if (bucket == 1) data[0] = 77.0F;
      };
      REQUIRE(runner->run_local_step(step, [](std::uint32_t) {}).ok());
      std::vector<float> got;
      for (const Bucket& b : rig.buckets)
        got.insert(got.end(), rig.grads.data() + b.begin, rig.grads.data() + b.end);
      const auto changed = static_cast<std::size_t>(rig.buckets[0].floats());
      CHECK(got[changed] == 77.0F);
      got[changed] = seen[changed];
      CHECK(same_bytes(got, seen));
    }
  }
}
