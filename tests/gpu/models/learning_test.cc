// Every architecture trains, in its tiny size and with its published dropout.
#include <doctest/doctest.h>

#include "gpu/engine/engine.h"
#include "tests/gpu/models/samples_by_formula.h"

TEST_SUITE("gpu/models") {
  using namespace es;
  using namespace es::gpu;

  constexpr std::uint32_t kSteps = 8;

  struct Outcome {
    std::vector<float> losses;  // By step.
    Digest params;
  };

  // Repeats one mini-batch.
  Outcome train(const JobSpec& spec, const test::SampleSizes& sizes, CpuClass cpu_class) {
    const Task task = task_of(spec.model);
    auto created = Engine::create(spec, test::sample_layout(task, sizes), {.cpu_class = cpu_class});
    REQUIRE_MESSAGE(created.ok(), created.error().message);
    Engine& engine = **created;
    REQUIRE(engine.init_replica().ok());
    const std::vector<float> words = test::reference_batch(task, sizes, spec.batch_size);
    AlignedBuffer grad(engine.table().total_floats());
    std::vector<const float*> reduced;
    for (const Bucket& b : engine.buckets()) reduced.push_back(grad.data() + b.begin);
    Outcome outcome;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      std::vector<EstContext> next(1);
      const auto loss =
          engine.local_step(0, {words.data()}, {}, grad.data(), next[0], [](std::uint32_t) {});
      REQUIRE_MESSAGE(loss.ok(), loss.error().message);
      outcome.losses.push_back(*loss);
      REQUIRE(engine.apply_update(reduced, std::move(next)).ok());
    }
    outcome.params = params_digest(engine.table(), engine.replica());
    return outcome;
  }

  JobSpec tiny_job(const std::string& model) {
    JobSpec spec;
    spec.max_p = 1;
    spec.batch_size = 4;
    spec.model = {.name = model, .size = "tiny"};
    // NeuMF's embeddings start very small.
    spec.optimizer = {.kind = "adam", .learning_rate = model == "neumf" ? 0.03 : 0.003};
    return spec;
  }

  // The mean loss of the last four steps is lower than at first. The mean is used because dropout
  // changes single steps.
  bool has_fallen(const std::vector<float>& losses) {
    float last = 0.0F;
    for (std::size_t i = losses.size() - 4; i < losses.size(); ++i) last += losses[i] / 4.0F;
    return last < 0.9F * losses[0];
  }

  TEST_CASE("every tiny model learns a mini-batch, with the same bits on every kernel class") {
    for (const std::string model :
         {"mlp", "small_cnn", "resnet18", "resnet50", "shufflenetv2", "vgg19", "swin_t", "yolov3",
          "neumf", "bert", "electra", "gpt2", "llama"}) {
      CAPTURE(model);
      const test::SampleSizes sizes{.side = model == "yolov3" ? 64 : 36};
      const Outcome scalar = train(tiny_job(model), sizes, CpuClass::kScalar);
      CHECK(has_fallen(scalar.losses));
      for (const CpuClass c : supported_cpu_classes()) {
        CAPTURE(device_type(c).name);
        const Outcome other = train(tiny_job(model), sizes, c);
        CHECK(other.losses == scalar.losses);
        CHECK(other.params == scalar.params);
      }
    }
  }

  TEST_CASE("dropout and stochastic depth change a step, and model.dropout = 0 turns them off") {
    for (const std::string model : {"vgg19", "swin_t", "bert", "electra", "gpt2"}) {
      CAPTURE(model);
      JobSpec spec = tiny_job(model);
      const Outcome published = train(spec, {}, CpuClass::kScalar);
      spec.model.dropout = 0.0;
      const Outcome without = train(spec, {}, CpuClass::kScalar);
      CHECK(published.losses[0] != without.losses[0]);
      CHECK(has_fallen(without.losses));
    }
  }
}
