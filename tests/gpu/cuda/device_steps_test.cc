// Local steps in sequence on a device, compared with the CPU in all bytes: inputs that are copied
// ahead, work that is recorded once and launched again, and hidden values that are not finite.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "gpu/cuda/device_executor.h"
#include "gpu/engine/engine.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/optim/optimizer.h"
#include "proto/base/check.h"
#include "tests/gpu/cuda/shuffled_device.h"
#include "tests/gpu/cuda/test_device.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_steps") {
  using namespace es::gpu;
  using es::test::ShuffledDevice;
  using es::test::StepRig;

  std::unique_ptr<StepRunner> on_device(const StepRig& rig, const Graph& graph,
                                        std::unique_ptr<cuda::Device> device) {
    auto runner =
        cuda::DeviceExecutor::create(compile(graph), std::move(device), rig.buckets, nullptr);
    ES_CHECK_MSG(runner.ok(), runner.ok() ? "" : runner.error().message);
    return *std::move(runner);
  }

  // The input of one local step, in memory of its own.
  struct Input {
    std::vector<float> words, stats;
    DropoutKey key;
    std::uint64_t serial = 0;

    StepInput step_input() const { return {stats.data(), {words.data(), serial}, key}; }
  };

  Input random_input(const StepRig& rig, std::mt19937_64& random, std::uint64_t serial) {
    Input input{rig.words, rig.stats, rig.key, serial};
    const es::SampleField& first = rig.graph().layout.fields[0];
    const auto count = static_cast<std::size_t>(rig.graph().batch * first.words());
    if (first.type == es::FieldType::kF32)
      for (std::size_t i = 0; i < count; ++i)
        input.words[i] = std::uniform_real_distribution<float>(-1, 1)(random);
    for (float& stat : input.stats) stat = std::uniform_real_distribution<float>(0.5F, 2)(random);
    input.key.step = static_cast<std::uint32_t>(serial);
    input.key.rank = static_cast<std::uint32_t>(random() % 3);
    return input;
  }

  // Loss, gradients and statistics. `words`: the place of the input's words; nullptr: in the input.
  std::vector<std::uint32_t> step_bits(StepRunner & runner, StepRig & rig, const Input& input,
                                       const std::function<void()>& meanwhile,
                                       const float* words = nullptr) {
    std::fill_n(rig.grads.data(), rig.grads.floats(), std::numeric_limits<float>::quiet_NaN());
    LocalStep step = rig.step();
    step.stats = input.stats.data();
    step.batch = {words != nullptr ? words : input.words.data(), input.serial};
    step.key = input.key;
    step.meanwhile = meanwhile;
    const auto result = runner.run_local_step(step, [](std::uint32_t) {});
    REQUIRE(result.ok());
    CHECK(result->fault.op == nullptr);
    std::vector<std::uint32_t> bits{std::bit_cast<std::uint32_t>(result->loss)};
    for (std::int64_t i = 0; i < rig.grads.floats(); ++i)
      bits.push_back(std::bit_cast<std::uint32_t>(rig.grads.data()[i]));
    for (const float s : rig.next_stats) bits.push_back(std::bit_cast<std::uint32_t>(s));
    return bits;
  }

  // Steps with all kinds of inputs: a prefetched one, another one than was prefetched, the same one
  // again, one without a prefetch, one after an evaluation, and with other parameters.
  void check_steps(std::uint64_t seed, StepRunner & device, StepRig & rig, int steps) {
    std::mt19937_64 random(seed);
    std::uint64_t serial = 0;
    Input now = random_input(rig, random, ++serial);
    for (int i = 0; i < steps; ++i) {
      CAPTURE(i);
      const Input next = random_input(rig, random, ++serial);
      const auto expected = step_bits(*rig.executor, rig, now, {});
      const bool announced = random() % 4 != 0;
      const auto got = step_bits(device, rig, now, [&] {
        if (announced) device.prefetch(next.step_input());
      });
      CHECK(got == expected);
      if (random() % 5 == 0) continue;  // The same input again: the prefetched one is not used.
      if (random() % 5 == 0) {
        rig.params.data()[rig.graph().table[0].offset] += 0.125F;
        device.params_changed();
      }
      if (random() % 5 == 0)
        CHECK(device
                  .run_eval(rig.params.data(), {now.stats.data(), {now.words.data()}, now.key},
                            nullptr)
                  .ok());
      now = random() % 4 == 0 ? random_input(rig, random, ++serial) : next;
      if (random() % 4 == 0) now.serial = 0;
    }
  }

  TEST_CASE("streams in any permitted order give the bits of the CPU, step after step") {
    const std::uint64_t seed = es::test::seed("device shuffled");
    for (const es::test::OperatorCase& c : es::test::network_cases()) {
      CAPTURE(c.name);
      StepRig rig(compile(c.graph), seed);
      ShuffledDevice::Counts counts;
      const auto device =
          on_device(rig, c.graph, std::make_unique<ShuffledDevice>(seed, true, counts));
      check_steps(seed, *device, rig, 8);
      // Each variant of every piece for both inputs, once.
      CHECK(counts.recorded <= 2 * static_cast<int>(1 + rig.buckets.size()));
      CHECK(counts.launched >= 6 * static_cast<int>(1 + rig.buckets.size()));
      CHECK(device->slower_because().empty());
    }
  }

  TEST_CASE("the device of the test: all kinds of inputs, step after step") {
    const std::uint64_t seed = es::test::seed("device steps");
    const es::test::OperatorCase c = es::test::network_cases()[0];
    StepRig rig(compile(c.graph), seed);
    const auto device = on_device(rig, c.graph, es::test::open_test_device());
    check_steps(seed, *device, rig, 20);
    CHECK(device->slower_because() == "");
  }

  TEST_CASE("a device that cannot record queues every step, asks once, and reports it") {
    const std::uint64_t seed = es::test::seed("device records nothing");
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), seed);
    ShuffledDevice::Counts counts;
    const auto device =
        on_device(rig, graph, std::make_unique<ShuffledDevice>(seed, false, counts));
    check_steps(seed, *device, rig, 4);
    CHECK(counts.recorded == 1);
    CHECK(counts.launched == 0);
    CHECK(device->slower_because() == "local steps are not CUDA graphs: shuffled: records nothing");
  }

  TEST_CASE("prefetched memory with other content under another serial number is read again") {
    const std::uint64_t seed = es::test::seed("device stale");
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), seed);
    const auto device = on_device(rig, graph, es::test::open_test_device());
    std::mt19937_64 random(seed);
    Input input = random_input(rig, random, 1);
    (void)step_bits(*device, rig, input, [&] { device->prefetch(input.step_input()); });
    for (float& word : input.words) word = word == 0.0F ? word : std::abs(word) * 0.5F;
    const es::SampleField& first = rig.graph().layout.fields[0];
    std::copy(rig.words.begin() + rig.graph().batch * first.words(), rig.words.end(),
              input.words.begin() + rig.graph().batch * first.words());
    input.serial = 2;
    const auto got = step_bits(*device, rig, input, {});
    CHECK(got == step_bits(*rig.executor, rig, input, {}));
  }

  TEST_CASE("a batch that was prefetched is used with the statistics and the key of the step") {
    const std::uint64_t seed = es::test::seed("device contexts");
    // The model has batch norm and dropout.
    const Graph graph = es::test::network_cases()[2].graph;
    StepRig rig(compile(graph), seed);
    REQUIRE_FALSE(rig.stats.empty());
    const auto device = on_device(rig, graph, es::test::open_test_device());
    std::mt19937_64 random(seed);
    Input ahead = random_input(rig, random, 1);
    const StepInput announced = ahead.step_input();
    const auto check = [&](const Input& input) {
      (void)step_bits(*device, rig, random_input(rig, random, 0),
                      [&] { device->prefetch(announced); });
      return step_bits(*device, rig, input, {}) == step_bits(*rig.executor, rig, input, {});
    };
    CHECK(check(ahead));
    Input other = ahead;  // Its statistics lie in another place.
    for (float& stat : other.stats) stat += 0.25F;
    CHECK(check(other));
    ahead.key.rank += 1;
    CHECK(check(ahead));
  }

  TEST_CASE("statistics that change after they were prefetched are copied again") {
    const std::uint64_t seed = es::test::seed("device statistics");
    const Graph graph = es::test::network_cases()[2].graph;
    StepRig rig(compile(graph), seed);
    const auto device = on_device(rig, graph, es::test::open_test_device());
    std::mt19937_64 random(seed);
    Input input = random_input(rig, random, 1);
    (void)step_bits(*device, rig, input, [&] { device->prefetch(input.step_input()); });
    for (float& stat : input.stats) stat += 0.25F;
    device->params_changed();
    const auto got = step_bits(*device, rig, input, {});
    CHECK(got == step_bits(*rig.executor, rig, input, {}));
  }

  TEST_CASE("the next forward pass is queued once, after the present step, and used") {
    const std::uint64_t seed = es::test::seed("device ahead");
    const Graph graph = es::test::network_cases()[2].graph;
    StepRig rig(compile(graph), seed);
    ShuffledDevice::Counts counts;
    const auto device = on_device(rig, graph, std::make_unique<ShuffledDevice>(seed, true, counts));
    const int pieces = 1 + static_cast<int>(rig.buckets.size());
    std::mt19937_64 random(seed);
    std::vector<Input> inputs;
    for (std::uint64_t i = 0; i < 12; ++i) inputs.push_back(random_input(rig, random, i + 1));
    int before = 0;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      CAPTURE(i);
      const auto got =
          step_bits(*device, rig, inputs[i], [&] { device->prefetch(inputs[i + 1].step_input()); });
      CHECK(got == step_bits(*rig.executor, rig, inputs[i], {}));
      if (i > 3) CHECK(counts.launched - before == pieces);  // All work is recorded.
      before = counts.launched;
    }
    // This input was not announced, so the queued forward pass is not used.
    const auto other = random_input(rig, random, 100);
    CHECK(step_bits(*device, rig, other, {}) == step_bits(*rig.executor, rig, other, {}));
    CHECK(counts.launched - before == pieces);
    CHECK(step_bits(*device, rig, other, {}) == step_bits(*rig.executor, rig, other, {}));
    CHECK(counts.launched - before == 2 * pieces);
  }

  TEST_CASE("a forward pass that was queued before an update is not used after it") {
    const std::uint64_t seed = es::test::seed("device ahead update");
    const Graph graph = es::test::network_cases()[2].graph;
    StepRig rig(compile(graph), seed);
    ShuffledDevice::Counts counts;
    const auto device = on_device(rig, graph, std::make_unique<ShuffledDevice>(seed, true, counts));
    REQUIRE(device->updater()->room_for(0));
    Optimizer optimizer({.learning_rate = 0.5, .momentum = 0.0}, {}, 10, 1);
    std::mt19937_64 random(seed);
    const Input first = random_input(rig, random, 1), second = random_input(rig, random, 2);
    Replica replica = empty_replica(rig.graph().table, 0);
    for (int round = 0; round < 4; ++round) {
      (void)step_bits(*device, rig, first, [&] { device->prefetch(second.step_input()); });
      std::vector<const float*> sums;
      for (const Bucket& b : rig.buckets) sums.push_back(rig.grads.data() + b.begin);
      replica.params = rig.params;
      REQUIRE(device->updater()->begin(sums, replica).ok());
      REQUIRE(device->updater()->apply(optimizer, optimizer.step(0)).ok());
      REQUIRE(device->updater()->fetch(replica).ok());
      rig.params = replica.params;
      CHECK(step_bits(*device, rig, second, {}) == step_bits(*rig.executor, rig, second, {}));
    }
  }

  TEST_CASE(
      "mini-batches in pinned memory are read before the end of the step of their announcement") {
    const std::uint64_t seed = es::test::seed("device pinned");
    const Graph graph = es::test::network_cases()[0].graph;
    StepRig rig(compile(graph), seed);
    for (std::uint64_t trial = 0; trial < 8; ++trial) {
      CAPTURE(trial);
      ShuffledDevice::Counts counts;
      const auto device =
          on_device(rig, graph, std::make_unique<ShuffledDevice>(seed + trial, true, counts));
      const std::size_t words = rig.words.size();
      const auto pool = std::make_shared<std::vector<float>>(2 * words);
      device->pin_batches(*pool, pool);
      std::mt19937_64 random(seed + trial);
      Input now = random_input(rig, random, 1);
      std::vector<std::uint32_t> expected, got;
      for (std::uint64_t i = 0; i < 8; ++i) {
        Input next = random_input(rig, random, i + 2);
        float* const slots[] = {pool->data() + i % 2 * words, pool->data() + (i + 1) % 2 * words};
        expected = step_bits(*rig.executor, rig, now, {});
        // From now on an announced input is known by its serial number alone.
        if (i == 0 || i % 3 == 0) std::copy(now.words.begin(), now.words.end(), slots[0]);
        const bool announced = (i + 1) % 3 != 0;
        got = step_bits(
            *device, rig, now,
            [&] {
              std::copy(next.words.begin(), next.words.end(), slots[1]);
              if (announced)
                device->prefetch({next.stats.data(), {slots[1], next.serial}, next.key});
            },
            slots[0]);
        CHECK(got == expected);
        std::fill(pool->begin(), pool->end(), std::numeric_limits<float>::quiet_NaN());
        now = std::move(next);
      }
    }
  }

  std::unique_ptr<Engine> engine_on(DeviceKind device) {
    es::JobSpec spec;
    spec.max_p = 4;
    spec.batch_size = 2;
    spec.level = es::DeterminismLevel::kD2;
    spec.model = {.name = "small_cnn", .width = 4, .classes = 10};
    const es::SampleLayout images{{{.name = "image", .height = 6, .width = 6, .channels = 1},
                                   {.name = "label", .type = es::FieldType::kI32, .high = 9}}};
    auto engine = *Engine::create(spec, images, {.device = device, .bucket_bytes = 1000});
    ES_CHECK(engine->init_replica().ok());
    return engine;
  }

  TEST_CASE(
      "an engine with announcements of each next batch gives the bits and the errors of the CPU") {
    const bool gpu = std::getenv("ES_GPU") != nullptr;
    const auto cpu = engine_on(DeviceKind::kCpu);
    const auto device = engine_on(gpu ? DeviceKind::kGpu : DeviceKind::kCudaHost);
    std::mt19937_64 random(es::test::seed("device engine prefetch"));
    std::vector<std::vector<float>> words(4, std::vector<float>(2 * 37));
    for (auto& batch : words)
      for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i] = i < 72 ? std::uniform_real_distribution<float>(-1, 1)(random)
                          : std::bit_cast<float>(static_cast<std::int32_t>(random() % 10));
    words[2][73] = std::bit_cast<float>(99);  // There is no such class.
    for (int round = 0; round < 3; ++round) {
      for (es::VirtualRank rank = 0; rank < 4; ++rank) {
        CAPTURE(rank);
        const std::uint64_t serial = 10 * static_cast<std::uint64_t>(round) + rank + 1;
        AlignedBuffer expected(cpu->table().total_floats()), got = expected;
        EstContext expected_next, next;
        if (rank < 3) device->prefetch(rank + 1, {words[rank + 1].data(), serial + 1});
        const auto loss = device->local_step(rank, {words[rank].data(), serial}, {}, got.data(),
                                             next, [](std::uint32_t) {});
        const auto expected_loss = cpu->local_step(rank, {words[rank].data()}, {}, expected.data(),
                                                   expected_next, [](std::uint32_t) {});
        REQUIRE(loss.ok() == expected_loss.ok());
        CHECK(loss.ok() == (rank != 2));
        if (!loss.ok()) {
          CHECK(loss.error().message == expected_loss.error().message);
          continue;
        }
        CHECK(*loss == *expected_loss);
        CHECK(next == expected_next);
        CHECK(std::memcmp(got.data(), expected.data(), got.bytes()) == 0);
      }
    }
  }

  TEST_CASE("a value that is not finite and has no effect on any result is traced as on a CPU") {
    GraphBuilder b(
        "hidden", 2,
        {{{"image", es::FieldType::kF32, 3, 3, 2}, {"label", es::FieldType::kI32, 1, 1, 1, 0, 4}}});
    const TensorId low = b.relu("relu", b.linear("low", b.input("image"), {.out = 4}));
    const TensorId logits = b.linear("fc", b.flatten("flatten", low), {.out = 5});
    b.cross_entropy("loss", logits, b.input("label"));
    const Graph graph = *b.finish({logits});
    StepRig rig(compile(graph), es::test::seed("device hidden"));
    std::fill_n(rig.words.begin(), 2 * 18, 1.0F);
    const auto device = on_device(rig, graph, es::test::open_test_device());
    const auto report = [](std::uint32_t) {};
    const AlignedBuffer good = rig.params;
    for (int round = 0; round < 3; ++round) {  // Queued directly, recorded, and launched.
      CAPTURE(round);
      CHECK(device->run_local_step(rig.step(), report)->fault.op == nullptr);
      std::fill_n(rig.params.data() + rig.graph().table[0].offset, rig.graph().table[0].count,
                  std::numeric_limits<float>::lowest());
      device->params_changed();
      const auto expected = rig.executor->run_local_step(rig.step(), report);
      const auto found = device->run_local_step(rig.step(), report);
      REQUIRE(expected->fault.op != nullptr);
      REQUIRE(found->fault.op != nullptr);
      CHECK(found->fault.op->name == "low");
      CHECK(found->fault.op->name == expected->fault.op->name);
      CHECK(found->fault.op->kind == expected->fault.op->kind);
      std::copy_n(good.data(), good.floats(), rig.params.data());
      device->params_changed();
    }
  }
}
