// The promise of the whole engine: the number and the kernel classes of the workers do not change a
// bit of the parameters or of the state.
#include <doctest/doctest.h>

#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/training.h"

TEST_SUITE("gpu/training") {
  using namespace es;
  using test::InProcessJob;
  using test::WorkerPlan;

  // On the host, the threads of a block are stacks that a kernel switches between, which
  // ThreadSanitizer does not follow.
#ifdef __SANITIZE_THREAD__
  constexpr bool kRunsCudaOnHost = false;
#else
  constexpr bool kRunsCudaOnHost = true;
#endif

  // Every model in its tiny size, on small samples of its task.
  const char* const kModels[] = {"mlp",     "small_cnn", "resnet18",    "resnet50", "shufflenetv2",
                                 "vgg19",   "swin_t",    "yolov3",      "neumf",    "bert",
                                 "electra", "resnet34",  "electra_base"};

  SampleLayout layout_of(const JobSpec& spec) {
    test::SampleSizes sizes;
    sizes.side = spec.model.name == "yolov3" || spec.model.name == "vgg19" ? 32 : 12;
    sizes.tokens = 6;
    return test::sample_layout(task_of(spec.model), sizes);
  }

  JobSpec job(const std::string& model, std::uint32_t max_p) {
    JobSpec spec;
    spec.max_p = max_p;
    spec.batch_size = 3;
    spec.steps = 100;
    spec.level = DeterminismLevel::kD2;
    spec.model = {.name = model, .size = "tiny", .classes = 10};
    spec.optimizer = {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3};
    spec.schedule.warmup_steps = 2;
    return spec;
  }

  struct Outcome {
    std::vector<std::vector<float>> losses;
    std::string params, state;
    bool operator==(const Outcome&) const = default;
  };

  Outcome train(const JobSpec& spec, const std::vector<WorkerPlan>& workers, int steps,
                std::uint32_t threads = 1) {
    InProcessJob job(spec, layout_of(spec), workers, 64 * 1024, threads);
    Outcome outcome;
    for (int i = 0; i < steps; ++i) outcome.losses.push_back(job.step());
    outcome.params = job.params_digest();
    outcome.state = job.state_digest();
    for (std::size_t w = 0; w < workers.size(); ++w)
      CHECK(job.peak_live_buffers(w) == gpu::max_live_buffers(workers[w].range, spec.max_p));
    return outcome;
  }

  TEST_CASE("every model trains to the same bits on every placement and kernel class") {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    const CpuClass slow = classes.front(), fast = classes.back();
    const CpuClass middle = classes[classes.size() / 2];
    for (const std::string model : kModels) {
      CAPTURE(model);
      const JobSpec spec = job(model, 3);
      const Outcome one = train(spec, {{{0, 3}, slow}}, 3);
      CHECK(one.losses[0] != one.losses[2]);
      CHECK(train(spec, {{{0, 3}, middle}}, 3) == one);
      CHECK(train(spec, {{{0, 3}, fast}}, 3) == one);
      CHECK(train(spec, {{{0, 2}, fast}, {{2, 3}, slow}}, 3) == one);
      CHECK(train(spec, {{{0, 1}, fast}, {{1, 2}, middle}, {{2, 3}, fast}}, 3) == one);
    }
  }

  TEST_CASE("every model trains to the CPU's bits on a CUDA device, alone and beside CPUs" *
            doctest::skip(!kRunsCudaOnHost)) {
    const CpuClass fast = supported_cpu_classes().back();
    const auto cuda = [&](RankRange range) {
      return WorkerPlan{range, fast, gpu::DeviceKind::kCudaHost};
    };
    for (const std::string model : kModels) {
      CAPTURE(model);
      const JobSpec spec = job(model, 2);
      const Outcome cpu = train(spec, {{{0, 2}, fast}}, 2);
      CHECK(train(spec, {cuda({0, 2})}, 2) == cpu);
    }
    const JobSpec spec = job("small_cnn", 4);
    const Outcome cpu = train(spec, {{{0, 4}, fast}}, 3);
    CHECK(train(spec, {cuda({0, 4})}, 3) == cpu);
    CHECK(train(spec, {cuda({0, 1}), cuda({1, 4})}, 3) == cpu);
    CHECK(train(spec, {cuda({0, 3}), {{3, 4}, CpuClass::kScalar}}, 3) == cpu);
  }

  TEST_CASE("no number of threads changes a bit") {
    const CpuClass fast = supported_cpu_classes().back();
    for (const std::string model : kModels) {
      CAPTURE(model);
      const JobSpec spec = job(model, 2);
      const Outcome one = train(spec, {{{0, 2}, fast}}, 2);
      CHECK(train(spec, {{{0, 2}, fast}}, 2, 2) == one);
      CHECK(train(spec, {{{0, 2}, fast}}, 2, 3) == one);
    }
  }

  TEST_CASE("adam with clipping trains to the same bits on every placement") {
    const CpuClass fast = supported_cpu_classes().back();
    for (const std::string kind : {"adam", "adamw"}) {
      JobSpec spec = job("small_cnn", 5);
      spec.optimizer = {
          .kind = kind, .learning_rate = 0.01, .weight_decay = 0.01, .clip_norm = 0.5};
      const Outcome one = train(spec, {{{0, 5}, CpuClass::kScalar}}, 4);
      CHECK(train(spec, {{{0, 5}, fast}}, 4, 2) == one);
      CHECK(train(spec, {{{0, 2}, fast}, {{2, 5}, CpuClass::kScalar}}, 4) == one);
      spec.optimizer.clip_norm = 0.0;
      CHECK(train(spec, {{{0, 5}, fast}}, 4).params != one.params);
    }
  }

  TEST_CASE("groups of parameters train to the same bits on every placement") {
    const CpuClass fast = supported_cpu_classes().back();
    for (const std::string kind : {"sgd", "adamw"}) {
      JobSpec spec = job("small_cnn", 4);
      spec.optimizer = {.kind = kind, .learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.5};
      const Outcome plain = train(spec, {{{0, 4}, fast}}, 3);
      spec.optimizer.groups = {{.parameters = {"*.bias"}, .weight_decay = 0.0},
                               {.parameters = {"*.weight"}, .learning_rate_factor = 0.5}};
      spec.optimizer.clip_groups = {{.parameters = {"*.bias"}, .clip_norm = 0.02}};
      const Outcome one = train(spec, {{{0, 4}, CpuClass::kScalar}}, 3);
      CHECK(one.params != plain.params);
      JobSpec other = spec;
      other.optimizer.clip_groups[0].clip_norm = 0.03;
      CHECK(train(other, {{{0, 4}, fast}}, 3).params != one.params);
      CHECK(train(spec, {{{0, 4}, fast}}, 3, 3) == one);
      CHECK(train(spec, {{{0, 2}, fast}, {{2, 4}, CpuClass::kScalar}}, 3) == one);
      if (kRunsCudaOnHost)
        CHECK(train(spec, {{{0, 4}, fast, gpu::DeviceKind::kCudaHost}}, 3) == one);
    }
  }

  TEST_CASE("level D0 repeats its bits on one placement, and not on another") {
    JobSpec spec = job("small_cnn", 5);
    spec.level = DeterminismLevel::kD0;
    const CpuClass fast = supported_cpu_classes().back();
    const auto digest = [&](const std::vector<WorkerPlan>& workers) {
      InProcessJob d0(spec, layout_of(spec), workers);
      for (int i = 0; i < 3; ++i) d0.step();
      return d0.params_digest();
    };
    const std::string two = digest({{{0, 3}, fast}, {{3, 5}, fast}});
    CHECK(digest({{{0, 3}, fast}, {{3, 5}, fast}}) == two);
    CHECK(digest({{{0, 5}, fast}}) != two);
  }

  TEST_CASE("changing the workers between steps does not change a bit") {
    const JobSpec spec = job("small_cnn", 5);
    const CpuClass fast = supported_cpu_classes().back();
    const Outcome fixed = train(spec, {{{0, 5}, CpuClass::kScalar}}, 6);
    InProcessJob job(spec, layout_of(spec), {{{0, 2}, fast}, {{2, 5}, fast}});
    job.step();
    job.step();
    job.replace_workers({{{0, 5}, fast}});
    job.step();
    job.replace_workers({{{0, 1}, fast}, {{1, 4}, CpuClass::kScalar}, {{4, 5}, fast}});
    for (int i = 0; i < 3; ++i) job.step();
    CHECK(job.params_digest() == fixed.params);
    CHECK(job.state_digest() == fixed.state);
  }

  TEST_CASE("the cut into buckets does not change a bit") {
    const JobSpec spec = job("small_cnn", 4);
    InProcessJob coarse(spec, layout_of(spec), {{{0, 4}, CpuClass::kScalar}}, 1 << 20);
    InProcessJob fine(spec, layout_of(spec),
                      {{{0, 3}, CpuClass::kScalar}, {{3, 4}, CpuClass::kScalar}}, 64);
    CHECK(coarse.engine(0).buckets().size() == 1);
    CHECK(fine.engine(0).buckets().size() > 5);
    for (int i = 0; i < 2; ++i) CHECK(coarse.step() == fine.step());
    CHECK(coarse.params_digest() == fine.params_digest());
  }

  TEST_CASE("training learns") {
    const JobSpec spec = job("small_cnn", 4);
    InProcessJob job(spec, layout_of(spec), {{{0, 4}, supported_cpu_classes().back()}});
    const auto mean = [](const std::vector<float>& losses) {
      float sum = 0.0F;
      for (const float l : losses) sum += l;
      return sum / static_cast<float>(losses.size());
    };
    const float first = mean(job.step());
    float last = 0.0F;
    for (int i = 0; i < 60; ++i) last = mean(job.step());
    CHECK(last < 0.5F * first);
  }
}
