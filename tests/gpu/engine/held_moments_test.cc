// Moments divided among workers: two workers hold those of a bucket, and every byte is that of a
// worker that holds all.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <string>

#include "gpu/import/adapters.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/training.h"
#include "tests/support/resident_bytes.h"
#include "tests/support/signal_of.h"

TEST_SUITE("gpu/held moments") {
  using namespace es;
  using test::InProcessJob;
  using test::ProgramWriter;
  using test::WorkerPlan;

  namespace {

#ifdef __SANITIZE_THREAD__
  constexpr bool kRunsCudaOnHost = false;
#else
  constexpr bool kRunsCudaOnHost = true;
#endif

  constexpr std::uint32_t kMaxP = 5;
  constexpr std::int64_t kBucketBytes = 256;

  JobSpec job(const std::string& model) {
    JobSpec spec;
    spec.max_p = kMaxP;
    spec.batch_size = 2;
    spec.steps = 100;
    spec.level = DeterminismLevel::kD2;
    spec.model = {
        .name = model, .size = "tiny", .width = model == "small_cnn" ? 4U : 0U, .classes = 10};
    spec.optimizer = {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3};
    return spec;
  }

  SampleLayout layout_of(const JobSpec& spec) {
    test::SampleSizes sizes;
    sizes.side = 12;
    sizes.tokens = 6;
    return test::sample_layout(task_of(spec.model), sizes);
  }

  // `count` workers with one or several of the five ranks, of different kernel classes.
  std::vector<WorkerPlan> workers(std::size_t count, bool cuda = false) {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    std::vector<WorkerPlan> plans;
    for (std::size_t i = 0; i < count; ++i)
      plans.push_back({{static_cast<VirtualRank>(i * kMaxP / count),
                        static_cast<VirtualRank>((i + 1) * kMaxP / count)},
                       classes[i % classes.size()],
                       cuda && i % 2 == 0 ? gpu::DeviceKind::kCudaHost : gpu::DeviceKind::kCpu});
    return plans;
  }

  // Steps with all moments first, so that the division begins with moments that are not zero, then
  // with holders that change between the steps.
  void check_same(InProcessJob& divided, InProcessJob& whole) {
    REQUIRE(whole.engine(0).buckets().size() > 3);
    for (const std::size_t first : {0U, 0U, 1U, 3U, 1U}) {
      REQUIRE(divided.step() == whole.step());
      divided.divide_moments(first);
      REQUIRE(divided.equals(whole));
    }
    REQUIRE(divided.step() == whole.step());
    REQUIRE(divided.equals(whole));
  }

  void check_job(const JobSpec& spec, std::size_t count, bool cuda = false) {
    CAPTURE(count);
    InProcessJob whole(spec, layout_of(spec), {{{0, kMaxP}, CpuClass::kScalar}}, kBucketBytes);
    InProcessJob divided(spec, layout_of(spec), workers(count, cuda), kBucketBytes, 2);
    check_same(divided, whole);
    CHECK(divided.engine(0).holds_all() == (count <= 2));
  }

  void check_optimizer(const OptimizerSpec& optimizer) {
    JobSpec spec = job("small_cnn");
    spec.optimizer = optimizer;
    CAPTURE(optimizer.kind);
    for (const std::size_t count : {1, 2, 3, 5}) check_job(spec, count);
  }

  TEST_CASE("workers that hold some moments have the bytes of one that holds all") {
    check_optimizer({.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3});
    check_optimizer({.learning_rate = 0.02, .momentum = 0.9, .nesterov = true, .ema = 0.9});
    check_optimizer({.learning_rate = 0.02, .momentum = 0.0});
    for (const std::string kind : {"adam", "adamw"}) {
      check_optimizer({.kind = kind, .learning_rate = 0.01, .weight_decay = 0.01});
      check_optimizer({.kind = kind, .learning_rate = 0.01, .clip_norm = 0.5, .ema = 0.5});
    }
  }

  TEST_CASE("groups of parameters and of clipping have the same bytes with divided moments") {
    OptimizerSpec optimizer{
        .kind = "adamw", .learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.5};
    optimizer.groups = {{.parameters = {"*.bias"}, .weight_decay = 0.0},
                        {.parameters = {"*.weight"}, .learning_rate_factor = 0.5}};
    optimizer.clip_groups = {{.parameters = {"*.bias"}, .clip_norm = 0.02},
                             {.parameters = {"fc1.*"}, .clip_norm = 0.0}};
    check_optimizer(optimizer);
  }

  TEST_CASE(
      "bf16, dropout, batch norm and a CUDA device have the same bytes with divided moments") {
    JobSpec spec = job("resnet18");
    spec.precision = "bf16";
    check_job(spec, 3);
    check_job(job("bert"), 3);
    if (!kRunsCudaOnHost) return;
    for (const std::size_t count : {1, 2, 3}) check_job(job("small_cnn"), count, true);
    spec = job("small_cnn");
    spec.optimizer = {.kind = "adam", .learning_rate = 0.01, .clip_norm = 0.5};
    check_job(spec, 3, true);
  }

  TEST_CASE("a device updates again when it holds all") {
    if (!kRunsCudaOnHost) return;
    JobSpec spec = job("small_cnn");
    spec.optimizer = {.kind = "adam", .learning_rate = 0.01, .clip_norm = 0.5};
    InProcessJob whole(spec, layout_of(spec), {{{0, kMaxP}, CpuClass::kScalar}}, kBucketBytes);
    InProcessJob two(spec, layout_of(spec), workers(2, true), kBucketBytes);
    // Two holders of two workers: both hold all, and the device of the first one updates itself.
    two.divide_moments(0);
    for (int i = 0; i < 2; ++i) CHECK(two.step() == whole.step());
    gpu::Engine& engine = two.engine(0);
    REQUIRE(engine.hold(std::vector<std::uint32_t>{1, 2}).ok());
    CHECK_FALSE(engine.holds_all());
    CHECK(two.equals(whole));  // what is held
    two.divide_moments(1);
    CHECK(engine.holds_all());
    CHECK(two.equals(whole));
    for (int i = 0; i < 2; ++i) CHECK(two.step() == whole.step());
    CHECK(two.equals(whole));
  }

  TEST_CASE("adapters beside frozen parameters have the same bytes with divided moments") {
    ProgramWriter w;
    ValueId x = w.input("x", {40});
    for (const char* name : {"a", "b", "c"}) x = w.node("relu", {w.linear(name, x, 40)});
    w.classify(w.linear("head", x, 4), w.ids("label", {}, 3));
    JobSpec spec = job("mlp");
    spec.lora = {.rank = 2, .alpha = 6.0, .targets = {"a", "b", "c", "head"}};
    const auto adapted = gpu::with_adapters(w.program, spec.lora);
    REQUIRE_MESSAGE(adapted.ok(), (adapted.ok() ? "" : adapted.error().message));
    spec.optimizer = {.kind = "adamw", .learning_rate = 0.01, .clip_norm = 0.1};
    for (const std::size_t count : {2, 3, 5}) {
      InProcessJob whole(spec, *adapted, {{{0, kMaxP}, CpuClass::kScalar}}, 512);
      InProcessJob divided(spec, *adapted, workers(count), 512);
      REQUIRE(whole.engine(0).kept_floats() < whole.engine(0).table().total_floats());
      check_same(divided, whole);
    }
  }

  // --- What an engine refuses, and breaks that these tests must find.

  struct Pair {
    explicit Pair(const JobSpec& spec)
        : whole(spec, layout_of(spec), {{{0, kMaxP}, CpuClass::kScalar}}, kBucketBytes),
          divided(spec, layout_of(spec), workers(3), kBucketBytes) {
      whole.step();
      divided.step();
      divided.divide_moments(0);
    }
    void step() {
      whole.step();
      divided.step();
    }
    InProcessJob whole, divided;
  };

  JobSpec adam_job() {
    JobSpec spec = job("small_cnn");
    spec.optimizer = {.kind = "adam", .learning_rate = 0.01};
    return spec;
  }

  TEST_CASE("a bucket that is left out of an update is found, and so is one flipped bit") {
    Pair pair(adam_job());
    gpu::Engine& engine = pair.divided.engine(1);
    std::uint32_t held = 0;
    while (!engine.holds(held)) ++held;
    const auto params = engine.bucket_params(held);
    const std::vector<float> before(params.begin(), params.end());
    pair.step();
    REQUIRE(pair.divided.equals(pair.whole));
    const std::vector<float> after(params.begin(), params.end());
    engine.replace_params(held, before.data());
    CHECK_FALSE(pair.divided.equals(pair.whole));
    engine.replace_params(held, after.data());
    CHECK(pair.divided.equals(pair.whole));

    const gpu::HeldArray& moment = engine.replica().moments[1];
    const gpu::Bucket& bucket = engine.buckets()[held];
    std::vector<float> values(moment.data() + bucket.begin, moment.data() + bucket.end);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[3], sizeof bits);
    bits ^= 1;
    std::memcpy(&values[3], &bits, sizeof bits);
    engine.replace_moments(held, 1, values.data());
    CHECK_FALSE(pair.divided.equals(pair.whole));
  }

  TEST_CASE("sums and results that are not finite are errors with the name of the parameter") {
    for (const bool clips : {false, true}) {
      CAPTURE(clips);
      JobSpec spec = adam_job();
      spec.optimizer.clip_norm = clips ? 0.5 : 0.0;
      Pair pair(spec);
      gpu::Engine& engine = pair.divided.engine(0);
      const gpu::ParamTable& table = engine.table();
      gpu::AlignedBuffer sums(table.trained_floats());
      std::uint32_t held = 0;
      while (!engine.holds(held)) ++held;
      const gpu::ParamRange range = gpu::params_of(table, engine.buckets()[held]);
      REQUIRE(range.size() != 0);
      const gpu::ParamInfo& bad = table.trained()[range.begin];
      sums.data()[bad.offset] = INFINITY;
      std::vector<const float*> by_bucket;
      for (std::uint32_t b = 0; b < engine.buckets().size(); ++b)
        by_bucket.push_back(engine.holds(b) ? sums.data() + engine.buckets()[b].begin : nullptr);
      std::vector<float> squares(clips ? table.trained().size() : 0);
      if (clips)
        engine.sums_of_squares(held, by_bucket[held],
                               std::span(squares).subspan(range.begin, range.size()));
      const Status updated = engine.update_held(by_bucket, squares);
      REQUIRE_FALSE(updated.ok());
      CHECK(updated.error().message == (clips ? "step 1: the norm of the gradient is not finite"
                                              : "step 1: the gradient of " + bad.name +
                                                    " is not finite in the sum over all ESTs"));
      // With clipping nothing has changed. Without it the replica is lost.
      if (clips) CHECK(pair.divided.equals(pair.whole));
      std::vector<gpu::EstContext> next = engine.contexts();
      CHECK_FALSE(engine.check_update(next).ok());  // those of this version
      for (gpu::EstContext& context : next) ++context.version;
      CHECK(engine.check_update(next).ok() == clips);
    }
  }

  TEST_CASE("contexts of another version end no update") {
    Pair pair(adam_job());
    gpu::Engine& engine = pair.divided.engine(0);
    std::vector<float> params;
    for (std::uint32_t b = 0; b < engine.buckets().size(); ++b) {
      const auto now = engine.bucket_params(b);
      params.assign(now.begin(), now.end());
      engine.replace_params(b, params.data());
    }
    CHECK_FALSE(engine.commit_update(engine.contexts()).ok());
    CHECK(engine.version() == 1);
    CHECK(pair.divided.equals(pair.whole));
  }

  TEST_CASE("a replica with other moments than the engine holds is not installed") {
    Pair pair(adam_job());
    gpu::Engine& engine = pair.divided.engine(0);
    const gpu::Replica own = engine.replica();
    const Status other = engine.install(pair.whole.engine(0).replica());
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().message.ends_with(
        "floats: allowed are those of the buckets that this engine holds"));
    CHECK(engine.install(own).ok());
    CHECK(pair.divided.equals(pair.whole));
  }

  // --- Memory.

  SampleLayout images() {
    return {{{.name = "image", .height = 8, .width = 8, .channels = 3},
             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  }

  // An engine of several buckets, whose moments have tens of megabytes.
  std::unique_ptr<gpu::Engine> large_engine() {
    JobSpec spec = adam_job();
    spec.max_p = 1;
    spec.model = {.name = "small_cnn", .width = 800, .classes = 10};
    return *gpu::Engine::create(spec, images(), {});
  }

  TEST_CASE("moments that are let go have no memory, and a read of them ends the process") {
    auto engine = large_engine();
    REQUIRE(engine->buckets().size() > 2);
    REQUIRE(engine->init_replica().ok());
    const std::int64_t all = test::private_bytes(), page = ::sysconf(_SC_PAGESIZE);
    const std::int64_t moments = engine->memory_use().moments;
    CHECK(moments == engine->table().trained_floats() * 8);
    REQUIRE(engine->hold(std::vector<std::uint32_t>{1}).ok());
    const std::int64_t kept = engine->buckets()[1].floats() * 8;
    CHECK(engine->memory_use().moments == kept);
    // Two arrays, whose ends may lie inside of pages.
    CHECK(all - test::private_bytes() > moments - kept - 4 * page - 1);
    CHECK(all - test::private_bytes() <= moments - kept + 2 * page);

    volatile float seen = 0.0F;
    const auto read = [&](std::uint32_t bucket) {
      const gpu::Bucket& floats = engine->buckets()[bucket];
      seen = engine->replica().moments[1].data()[(floats.begin + floats.end) / 2];
    };
    CHECK(test::signal_of([&] { read(1); }) == 0);
    CHECK(test::signal_of([&] { read(0); }) == SIGSEGV);
    CHECK(test::signal_of([&] { read(2); }) == SIGSEGV);
  }

#ifndef __SANITIZE_ADDRESS__
  TEST_CASE("an engine that may hold some moments begins within a limit that is too low for all") {
    CHECK(test::signal_of([] {
            auto engine = large_engine();
            const std::int64_t params = engine->memory_use().params;
            const auto limit = static_cast<rlim_t>(test::private_bytes() + params + (16 << 20));
            const rlimit both{limit, limit};
            ::setrlimit(RLIMIT_DATA, &both);
            const Status all = engine->init_replica();
            const bool refused = !all.ok() && all.error().message.find(
                                                  "not enough memory for a moment of the "
                                                  "optimizer") != std::string::npos;
            const bool some =
                engine->hold(std::vector<std::uint32_t>{0}).ok() && engine->init_replica().ok();
            std::vector<std::uint32_t> buckets(engine->buckets().size());
            for (std::uint32_t b = 0; b < buckets.size(); ++b) buckets[b] = b;
            const Status more = engine->hold(buckets);
            const bool stays = !more.ok() && engine->holds(0) && !engine->holds(1);
            if (!refused || !some || !stays) std::abort();
          }) == 0);
  }
#endif
  }  // namespace
}
