// Whole jobs on the CUDA device against the CPU: the same bytes of parameters, moments and
// contexts.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "proto/base/check.h"
#include "tests/gpu/support/training.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_engine") {
  using namespace es;
  using namespace es::gpu;
  using test::InProcessJob;
  using test::WorkerPlan;

  DeviceKind device_kind() {
    return std::getenv("ES_GPU") == nullptr ? DeviceKind::kCudaHost : DeviceKind::kGpu;
  }

  SampleLayout images() {
    return {{{.name = "image", .height = 6, .width = 6, .channels = 1},
             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  }

  JobSpec job_spec(const std::string& model, std::uint32_t max_p) {
    JobSpec spec;
    spec.max_p = max_p;
    spec.batch_size = 2;
    spec.steps = 100;
    spec.level = DeterminismLevel::kD2;
    spec.model = {.name = model, .width = 4, .classes = 10};
    spec.optimizer = {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3};
    return spec;
  }

  template <class Array>
  bool same_bytes(const Array& a, const Array& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  }

  void check_equal(const Replica& a, const Replica& b) {
    CHECK(a.version == b.version);
    CHECK(same_bytes(a.params, b.params));
    REQUIRE(a.moments.size() == b.moments.size());
    for (std::size_t m = 0; m < a.moments.size(); ++m)
      CHECK(same_bytes(a.moments[m], b.moments[m]));
    CHECK(a.contexts == b.contexts);
  }

  // Two steps on a CPU, then three more on these workers and on the CPU.
  void compare(const JobSpec& spec, const std::vector<WorkerPlan>& workers) {
    constexpr std::int64_t kBucketBytes = 1000;
    const std::vector<WorkerPlan> cpu{{.range = {0, spec.max_p}}};
    InProcessJob expected(spec, images(), cpu, kBucketBytes);
    InProcessJob got(spec, images(), cpu, kBucketBytes);
    for (int i = 0; i < 2; ++i) CHECK(got.step() == expected.step());
    got.replace_workers(workers);
    for (int i = 0; i < 3; ++i) {
      CHECK(got.step() == expected.step());
      CHECK(got.params_digest() == expected.params_digest());
    }
    for (std::size_t w = 0; w < workers.size(); ++w) {
      REQUIRE(got.engine(w).fetch_replica().ok());
      check_equal(got.engine(w).replica(), expected.engine(0).replica());
    }
    CHECK(got.state_digest() == expected.state_digest());
  }

  TEST_CASE("any number of ESTs, with and without room for their sums") {
    for (std::uint32_t ests = 1; ests <= 16; ++ests)
      for (const std::uint32_t sums : {0U, 1U}) {
        CAPTURE(ests);
        CAPTURE(sums);
        compare(job_spec(ests % 2 == 0 ? "small_cnn" : "mlp", ests),
                {{.range = {0, ests}, .device = device_kind(), .device_sums = sums}});
      }
  }

  TEST_CASE(
      "parameters with several chunks in their digest, which are not fetched from the device") {
    JobSpec spec = job_spec("mlp", 2);
    spec.model.width = 160;
    compare(spec, {{.range = {0, 2}, .device = device_kind()}});
  }

  TEST_CASE("several workers of both kinds, ranges of any size") {
    std::mt19937_64 random(test::seed("device_engine"));
    for (int trial = 0; trial < 6; ++trial) {
      const auto max_p = std::uniform_int_distribution<std::uint32_t>(3, 13)(random);
      std::vector<WorkerPlan> workers;
      for (VirtualRank begin = 0; begin < max_p;) {
        const auto size = std::uniform_int_distribution<std::uint32_t>(1, max_p - begin)(random);
        CAPTURE(begin);
        workers.push_back({.range = {begin, begin + size},
                           .device = random() % 3 == 0 ? DeviceKind::kCpu : device_kind(),
                           .device_sums = static_cast<std::uint32_t>(random() % 3)});
        begin += size;
      }
      CAPTURE(max_p);
      compare(job_spec("small_cnn", max_p), workers);
    }
  }

  TEST_CASE("every optimizer, with and without clipping, and one chain at level D0") {
    for (const OptimizerSpec& optimizer :
         {OptimizerSpec{.learning_rate = 0.02, .momentum = 0.0},
          OptimizerSpec{.learning_rate = 0.02, .momentum = 0.9, .nesterov = true},
          OptimizerSpec{.kind = "adam", .learning_rate = 1e-3, .weight_decay = 1e-2},
          OptimizerSpec{.kind = "adamw", .learning_rate = 1e-3, .weight_decay = 1e-2}})
      for (const double clip : {0.0, 0.01}) {
        CAPTURE(optimizer.kind);
        CAPTURE(clip);
        JobSpec spec = job_spec("small_cnn", 3);
        spec.optimizer = optimizer;
        spec.optimizer.clip_norm = clip;
        compare(spec, {{.range = {0, 2}, .device = device_kind()}, {.range = {2, 3}}});
        compare(spec, {{.range = {0, 3}, .device = device_kind()}});
      }
    JobSpec chain = job_spec("small_cnn", 5);
    chain.level = DeterminismLevel::kD0;
    compare(chain, {{.range = {0, 5}, .device = device_kind()}});
  }

  // --- Updates whose values are not finite.

  struct Update {
    std::string error;
    std::unique_ptr<Engine> engine;
  };
  // Version 0, updated with gradients of `value`. The first gradient of conv2.weight is `first`.
  Update update_with(DeviceKind device, JobSpec spec, float value, float first) {
    Update update{"", *Engine::create(spec, images(), {.device = device, .bucket_bytes = 1000})};
    Engine& engine = *update.engine;
    REQUIRE(engine.init_replica().ok());
    AlignedBuffer sum(engine.table().total_floats());
    for (const ParamInfo& p : engine.table().params()) {
      std::fill_n(sum.data() + p.offset, p.count, value);
      if (p.name == "conv2.weight") sum.data()[p.offset] = first;
    }
    std::vector<const float*> reduced;
    for (const Bucket& b : engine.buckets()) reduced.push_back(sum.data() + b.begin);
    std::vector<EstContext> next = engine.contexts();
    for (EstContext& context : next) ++context.version;
    const Status status = engine.apply_update(reduced, std::move(next));
    if (!status.ok()) update.error = status.error().message;
    return update;
  }

  TEST_CASE("an update that is not finite gives the error of the CPU") {
    const float infinite = std::numeric_limits<float>::infinity();
    JobSpec plain = job_spec("small_cnn", 2), clipping = plain, fast = plain;
    clipping.optimizer.clip_norm = 1.0;
    fast.optimizer.learning_rate = 1e38;
    struct Case {
      JobSpec spec;
      float value, first;
    };
    for (const Case& c :
         {Case{plain, 1.0F, infinite}, Case{clipping, 1.0F, infinite}, Case{fast, 0.0F, 100.0F}}) {
      const Update expected = update_with(DeviceKind::kCpu, c.spec, c.value, c.first);
      const Update got = update_with(device_kind(), c.spec, c.value, c.first);
      CHECK_FALSE(expected.error.empty());
      CHECK(got.error == expected.error);
    }
    const Update clipped = update_with(device_kind(), clipping, 1.0F, infinite);
    CHECK(clipped.engine->version() == 0);  // The replica can be used as before.
    REQUIRE(clipped.engine->fetch_replica().ok());
    const Update fresh = update_with(DeviceKind::kCpu, clipping, 1.0F, infinite);
    check_equal(clipped.engine->replica(), fresh.engine->replica());
  }

  TEST_CASE("a replica that is installed replaces the one on the device") {
    const JobSpec spec = job_spec("small_cnn", 2);
    const Update cpu = update_with(DeviceKind::kCpu, spec, 1.0F, 1.0F);
    const Update device = update_with(device_kind(), spec, 2.0F, 2.0F);
    REQUIRE(device.engine->install(cpu.engine->replica()).ok());
    InProcessJob job(spec, images(), {{.range = {0, 2}, .device = device_kind()}}, 1000);
    InProcessJob expected(spec, images(), {{.range = {0, 2}}}, 1000);
    for (InProcessJob* each : {&job, &expected}) {
      each->step();
      REQUIRE(each->engine(0).install(cpu.engine->replica()).ok());
      each->step();
      REQUIRE(each->engine(0).fetch_replica().ok());
    }
    check_equal(job.engine(0).replica(), expected.engine(0).replica());
  }

  // --- A step in which the gradient of one EST overflows.

  JobSpec overflow_spec() {
    return job_spec("mlp", 5);
  }

  // Images of 1e37 give finite activations and an infinite gradient of the first layer.
  std::unique_ptr<Engine> overflow_engine(DeviceKind device) {
    auto engine = *Engine::create(overflow_spec(), images(),
                                  {.device = device, .bucket_bytes = 100, .device_sums = 1});
    ES_CHECK(engine->init_replica().ok());
    Replica replica = engine->replica();
    const auto fill = [&](const char* name, std::int64_t count, float value) {
      for (const ParamInfo& p : engine->table().params())
        if (p.name == name) std::fill_n(replica.params.data() + p.offset, count, value);
    };
    fill("net.1.weight", 4 * 36, 1e-30F);
    fill("net.3.weight", 16, 1.0F);
    fill("net.5.weight", 4, 1e3F);
    ES_CHECK(engine->install(std::move(replica)).ok());
    return engine;
  }

  // Runs five of eight ESTs in the tree until one fails. `bad` names the ESTs with images that are
  // too large. Returns the error and the parts that were reported.
  struct Outcome {
    std::string error;
    std::vector<float> parts;
  };
  Outcome run_step(Engine & engine, std::uint32_t bad) {
    Outcome outcome;
    const RankRange range{0, 5};
    std::vector<AlignedBuffer> slots(max_live_buffers(range, 8),
                                     AlignedBuffer(engine.table().total_floats()));
    GradientTree tree(range, 8, engine.buckets().size(), [&](const PartReady& node) {
      const Bucket& b = engine.buckets()[node.bucket];
      const float* const data = slots[node.slot].data();
      outcome.parts.insert(outcome.parts.end(), data + b.begin, data + b.end);
    });
    for (VirtualRank rank = 0; rank < 5; ++rank) {
      std::vector<float> words(2 * 37, rank == bad ? 1e37F : 0.25F);
      for (std::size_t s = 0; s < 2; ++s) words[2 * 36 + s] = std::bit_cast<float>(1);
      EstContext next;
      const auto loss = engine.local_step(
          rank, {words.data()}, {},
          {tree.begin_rank(rank), [&](std::uint32_t slot) { return slots[slot].data(); }}, next,
          [&](std::uint32_t bucket) { tree.bucket_ready(bucket); });
      if (loss.ok()) continue;
      outcome.error = loss.error().message;
      break;
    }
    return outcome;
  }

  TEST_CASE("a gradient that is not finite is attributed to its EST, and its sum is not reported") {
    const auto cpu = overflow_engine(DeviceKind::kCpu), device = overflow_engine(device_kind());
    const Outcome good = run_step(*cpu, 99);
    REQUIRE(good.error.empty());
    for (std::uint32_t bad = 0; bad < 5; ++bad) {
      CAPTURE(bad);
      const Outcome expected = run_step(*cpu, bad), got = run_step(*device, bad);
      CHECK(expected.error == "EST " + std::to_string(bad) +
                                  ", step 0: the gradient of net.1.weight is not finite; operator: "
                                  "net.1 (linear weight gradient)");
      CHECK(got.error == expected.error);
      for (const float value : got.parts) CHECK(std::abs(value) < 1e38F);
      // The next step does not use it.
      const Outcome again = run_step(*device, 99);
      CHECK(again.error.empty());
      REQUIRE(again.parts.size() == good.parts.size());
      CHECK(std::memcmp(again.parts.data(), good.parts.data(), good.parts.size() * sizeof(float)) ==
            0);
    }
  }
}
