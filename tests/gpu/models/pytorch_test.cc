// The tiny models behave like PyTorch's models of the same architecture: loss, every gradient and
// outputs of evaluation, on weights and samples from a formula that both use.
#include <doctest/doctest.h>

#include <cmath>

#include "gpu/engine/engine.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/models/reference_file.h"
#include "tests/gpu/models/samples_by_formula.h"

TEST_SUITE("gpu/models") {
  using namespace es;
  using namespace es::gpu;

  constexpr std::int64_t kBatch = 4;

  bool ends_with(const std::string& text, const char* end) {
    return text.ends_with(end);
  }

  bool is_table(const std::string& name) {
    for (const char* part : {"embedding", "_table", "gu.", "gi.", "mu.", "mi."})
      if (name.find(part) != std::string::npos) return true;
    return false;
  }

  // The same as weight() in make_reference.py.
  void set_by_formula(NamedTensor & t) {
    t.values = test::fill(t.name, t.values.size());
    const bool vector = t.shape.size() == 1;
    if (ends_with(t.name, "running_var") || (vector && ends_with(t.name, "weight"))) {
      for (float& v : t.values) v = 1.0F + v / 2.0F;
    } else if (vector) {
      for (float& v : t.values) v /= 2.0F;
    } else {
      const std::int64_t rows = t.shape[0];
      const double fan_in = is_table(t.name) ? 1.0 : double(t.values.size()) / double(rows);
      for (float& v : t.values) v *= static_cast<float>(std::sqrt(12.0 / fan_in));
    }
  }

  std::unique_ptr<Engine> engine_by_formula(const JobSpec& spec, const SampleLayout& layout,
                                            CpuClass cpu_class) {
    auto created = Engine::create(spec, layout, {.cpu_class = cpu_class});
    REQUIRE_MESSAGE(created.ok(), created.error().message);
    std::unique_ptr<Engine> engine = std::move(*created);
    REQUIRE(engine->init_replica().ok());
    Replica replica = engine->replica();
    float* stats = replica.contexts[0].stats.data();
    std::vector<NamedTensor> state = export_state(engine->table(), replica.params.data(), stats);
    for (NamedTensor& t : state) set_by_formula(t);
    REQUIRE(import_state(engine->table(), state, replica.params.data(), stats).ok());
    REQUIRE(engine->install(std::move(replica)).ok());
    return engine;
  }

  // Relative to the norm, because the entries of the probe are below one half.
  void check_close(const test::Summary& ours, const test::Summary& expected, double scale,
                   double tolerance) {
    CHECK(std::abs(ours.norm - expected.norm) < tolerance * scale);
    CHECK(std::abs(ours.probe - expected.probe) < tolerance * scale);
  }

  // The largest norm of a gradient. Rounding errors of small gradients are compared with it.
  double gradient_scale(const test::ModelReference& expected) {
    double scale = 0.0;
    for (const auto& [name, g] : expected.gradients) scale = std::max(scale, g.norm);
    return scale;
  }

  void compare_training(Engine & engine, const Batch& batch, const test::ModelReference& expected,
                        double tolerance) {
    AlignedBuffer grad(engine.table().total_floats());
    EstContext next;
    const auto loss = engine.local_step(0, batch, {}, grad.data(), next, [](std::uint32_t) {});
    REQUIRE_MESSAGE(loss.ok(), loss.error().message);
    CHECK(std::abs(*loss - expected.loss) < 1e-6 * expected.loss);
    const auto gradients = export_state(engine.table(), grad.data(), next.stats.data());
    std::size_t compared = 0;
    const double floor = 1e-3 * gradient_scale(expected);
    for (const NamedTensor& t : gradients) {
      const auto found = expected.gradients.find(t.name);
      if (found == expected.gradients.end()) continue;  // A statistic.
      CAPTURE(t.name);
      check_close(test::summary(t.values, "probe." + t.name), found->second,
                  std::max(found->second.norm, floor), tolerance);
      ++compared;
    }
    CHECK(compared == expected.gradients.size());
    CHECK(compared == engine.table().params().size());
  }

  void compare_evaluation(Engine & engine, const Batch& batch,
                          const test::ModelReference& expected) {
    const auto result = engine.evaluate(batch, kBatch);
    REQUIRE_MESSAGE(result.ok(), result.error().message);
    REQUIRE(result->outputs.size() == expected.outputs.size());
    for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
      const std::span<const float> y = result->outputs[i];
      check_close(test::summary({y.begin(), y.end()}, "probe.output"), expected.outputs[i],
                  expected.outputs[i].norm, 1e-6);
    }
  }

  // The tolerance for gradients: our fp32 compared with PyTorch's fp64.
  void compare(const std::string& model, double tolerance) {
    JobSpec spec;
    spec.max_p = 1;
    spec.batch_size = kBatch;
    spec.model = {.name = model, .size = "tiny", .dropout = 0.0};
    const Task task = task_of(spec.model);
    const test::SampleSizes sizes{.side = task == Task::kDetection ? 64 : 36};
    const std::vector<float> words = test::reference_batch(task, sizes, kBatch);
    const test::ModelReference expected = test::read_reference(model);
    for (const CpuClass c : supported_cpu_classes()) {
      CAPTURE(model);
      CAPTURE(device_type(c).name);
      const auto engine = engine_by_formula(spec, test::sample_layout(task, sizes), c);
      compare_training(*engine, {words.data()}, expected, tolerance);
      compare_evaluation(*engine, {words.data()}, expected);
    }
  }

  TEST_CASE("the tiny models' losses, gradients and outputs agree with PyTorch") {
    for (const char* model :
         {"mlp", "small_cnn", "neumf", "resnet18", "resnet34", "resnet50", "vgg19", "swin_t"})
      compare(model, 1e-5);
    // Some of their gradients are 0 except for rounding, or are sums that cancel.
    for (const char* model :
         {"shufflenetv2", "yolov3", "bert", "electra", "electra_base", "gpt2", "llama"})
      compare(model, 5e-5);
  }
}
