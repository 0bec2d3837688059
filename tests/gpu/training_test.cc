// The promise of the whole engine: the number and the kernel classes of the workers do not change a
// bit of the parameters or of the state.
#include <doctest/doctest.h>

#include "tests/gpu/support/training.h"

TEST_SUITE("gpu/training") {
  using namespace es;
  using test::InProcessJob;
  using test::WorkerPlan;

  constexpr gpu::DataShape kImage{8, 8, 2};

  JobSpec job(const char* model, std::uint32_t width, std::uint32_t max_p) {
    JobSpec spec;
    spec.max_p = max_p;
    spec.batch_size = 3;
    spec.steps = 100;
    spec.model = {.name = model, .width = width, .classes = 10};
    spec.optimizer = {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
    spec.schedule.warmup_steps = 2;
    return spec;
  }

  struct Outcome {
    std::vector<std::vector<float>> losses;
    std::string params, state;
    bool operator==(const Outcome&) const = default;
  };

  Outcome train(const JobSpec& spec, const std::vector<WorkerPlan>& workers, int steps) {
    InProcessJob job(spec, kImage, workers);
    Outcome outcome;
    for (int i = 0; i < steps; ++i) outcome.losses.push_back(job.step());
    outcome.params = job.params_digest();
    outcome.state = job.state_digest();
    for (std::size_t w = 0; w < workers.size(); ++w)
      CHECK(job.peak_live_buffers(w) == gpu::max_live_buffers(workers[w].range, spec.max_p));
    return outcome;
  }

  void check_all_placements(const char* model, std::uint32_t width) {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    const CpuClass fast = classes.back();
    for (const std::uint32_t max_p : {4U, 5U}) {
      const JobSpec spec = job(model, width, max_p);
      const Outcome one = train(spec, {{{0, max_p}, classes.front()}}, 3);
      CHECK(one.losses[0] != one.losses[2]);
      for (const CpuClass c : classes) CHECK(train(spec, {{{0, max_p}, c}}, 3) == one);
      CHECK(train(spec, {{{0, 2}, fast}, {{2, max_p}, classes.front()}}, 3) == one);
      CHECK(train(spec,
                  {{{0, 1}, classes.front()},
                   {{1, 2}, classes[classes.size() / 2]},
                   {{2, max_p}, fast}},
                  3) == one);
      CHECK(train(spec, {{{0, 3}, fast}, {{3, max_p}, fast}}, 3) == one);
    }
  }

  TEST_CASE("the small CNN trains to the same bits on every placement and kernel class") {
    check_all_placements("small_cnn", 4);
  }

  TEST_CASE("the MLP trains to the same bits on every placement and kernel class") {
    check_all_placements("mlp", 24);
  }

  TEST_CASE("ResNet18 trains to the same bits on every placement and kernel class") {
    check_all_placements("resnet18", 4);   // channels that leave vectors incomplete
    check_all_placements("resnet18", 16);  // and whole vectors
  }

  TEST_CASE("changing the workers between steps does not change a bit") {
    const JobSpec spec = job("small_cnn", 4, 5);
    const CpuClass fast = supported_cpu_classes().back();
    const Outcome fixed = train(spec, {{{0, 5}, CpuClass::kScalar}}, 6);
    InProcessJob job(spec, kImage, {{{0, 2}, fast}, {{2, 5}, fast}});
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
    const JobSpec spec = job("small_cnn", 4, 4);
    InProcessJob coarse(spec, kImage, {{{0, 4}, CpuClass::kScalar}}, 1 << 20);
    InProcessJob fine(spec, kImage, {{{0, 3}, CpuClass::kScalar}, {{3, 4}, CpuClass::kScalar}}, 64);
    CHECK(coarse.engine(0).buckets().size() == 1);
    CHECK(fine.engine(0).buckets().size() > 5);
    for (int i = 0; i < 2; ++i) CHECK(coarse.step() == fine.step());
    CHECK(coarse.params_digest() == fine.params_digest());
  }

  TEST_CASE("training learns") {
    const JobSpec spec = job("small_cnn", 4, 4);
    InProcessJob job(spec, kImage, {{{0, 4}, supported_cpu_classes().back()}});
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
