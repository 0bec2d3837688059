// Models of several programs (ModelProgram::programs): each computes what it would compute as a
// model of its own, and a step has the same bits on every placement, whichever program computes the
// mini-batch of an EST.
#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/training.h"

namespace {

TEST_SUITE("gpu/programs") {
  using namespace es;
  using test::dims;
  using test::InProcessJob;
  using test::ProgramWriter;
  using test::WorkerPlan;
  using Ints = std::vector<std::int64_t>;

  constexpr std::uint32_t kMaxP = 3;

#ifdef __SANITIZE_THREAD__
  constexpr bool kRunsCudaOnHost = false;
#else
  constexpr bool kRunsCudaOnHost = true;
#endif

  // A convolution with running statistics, of an image of any size, as [B,6].
  ValueId features(ProgramWriter & w, ValueId image) {
    const ValueId conv = w.batch_norm("norm", w.conv("conv", image, 6, 3, 1, 1));
    return w.node("mean", {w.node("tanh", {conv})}, {{"axes", Ints{2, 3}}});
  }

  // Reads the convolution's features of a larger image, and a parameter and a state that the first
  // program does not use.
  ModelProgram large() {
    ProgramWriter w;
    const ValueId image = w.input("image", {2, 9, 7}), label = w.ids("label", {}, 3);
    const ValueId seen = w.state("seen", {6});
    const ValueId x = features(w, image);
    const ValueId mean = w.node("mean", {x}, {{"axes", Ints{0}}});
    const ValueId next = w.node("add", {w.node("mul_scalar", {seen}, {{"value", 0.5}}), mean});
    w.node("set_state", {w.node("stop_gradient", {next})}, {{"state", std::int64_t{0}}});
    const ValueId scaled = w.node("mul", {w.node("add", {x, seen}), w.parameter("scale", {6})});
    w.classify(w.linear("head", scaled, 4), label);
    w.program.format = kModelFormatWithStates;
    return w.program;
  }

  // The features do not learn here, and the head that the others learn is used twice.
  ModelProgram frozen() {
    ProgramWriter w;
    const ValueId image = w.input("image", {2, 5, 5}), label = w.ids("label", {}, 3);
    const ValueId x = w.node("mean", {w.node("tanh", {w.conv("conv", image, 6, 3, 1, 1)})},
                             {{"axes", Ints{2, 3}}});
    for (ModelParameter& parameter : w.program.parameters) parameter.trainable = false;
    const ValueId logits = w.linear("head", x, 4);
    w.classify(w.node("add", {logits, w.node("mul", {logits, logits})}), label);
    return w.program;
  }

  // A small image. The table has a parameter, a state, and in `frozen` a missing batch norm, that
  // not all programs use.
  ModelProgram model() {
    ProgramWriter w;
    const ValueId image = w.input("image", {2, 5, 5}), label = w.ids("label", {}, 3);
    const ValueId logits = w.linear("head", features(w, image), 4);
    w.parameter("scale", {6});
    w.state("seen", {6});
    w.classify(logits, label);
    ModelProgram p = w.program;
    for (ModelParameter& parameter : p.parameters)
      parameter.init = {.constant = 0.1F, .bound = 0.5F};
    p.programs = {large(), frozen()};
    p.format = kModelFormatWithPrograms;
    return p;
  }

  JobSpec job() {
    JobSpec spec;
    spec.max_p = kMaxP;
    spec.batch_size = 4;
    spec.steps = 100;
    spec.level = DeterminismLevel::kD2;
    spec.model.classes = 4;
    spec.optimizer = {.kind = "adamw", .learning_rate = 0.01};
    return spec;
  }

  std::unique_ptr<gpu::Engine> engine_of(const ModelProgram& program, CpuClass cpu_class) {
    const Status checked = gpu::check_program(program);
    REQUIRE_MESSAGE(checked.ok(), checked.error().message);
    auto graph = gpu::import_model(program, job().batch_size);
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    auto engine = gpu::Engine::create(job(), *std::move(graph), {.cpu_class = cpu_class});
    REQUIRE_MESSAGE(engine.ok(), engine.error().message);
    REQUIRE((*engine)->init_replica().ok());
    return *std::move(engine);
  }

  // --- Values.

  struct Computed {
    float loss = 0.0F;
    std::map<std::string, std::vector<float>> gradients, stats;  // in PyTorch's order
  };

  // Gives the engine numbers that depend on the names alone, because a model of its own has another
  // order of the parameters.
  void set_by_name(gpu::Engine & engine) {
    gpu::Replica replica = engine.replica();
    for (const gpu::ParamInfo& p : engine.table().params()) {
      std::vector<float> torch;
      for (std::int64_t i = 0; i < p.count; ++i)
        torch.push_back(
            0.01F * static_cast<float>((7 * i + std::hash<std::string>()(p.name)) % 97) - 0.5F);
      gpu::from_pytorch(p, torch.data(), replica.params.data() + p.offset);
    }
    for (gpu::EstContext& context : replica.contexts)
      for (const gpu::StatInfo& s : engine.table().stats())
        for (std::int64_t i = 0; i < s.count; ++i)
          context.stats[static_cast<std::size_t>(s.offset + i)] =
              0.5F + 0.01F * static_cast<float>(i + std::ssize(s.name));
    REQUIRE(engine.install(std::move(replica)).ok());
  }

  Computed compute(gpu::Engine & engine, gpu::Batch batch) {
    const gpu::ParamTable& table = engine.table();
    gpu::AlignedBuffer slot(table.total_floats());
    // What a program does not write must not stay from before.
    std::fill_n(slot.data(), slot.floats(), 99.0F);
    gpu::EstContext next;
    const auto loss = engine.local_step(0, batch, {}, slot.data(), next, [](std::uint32_t) {});
    REQUIRE_MESSAGE(loss.ok(), loss.error().message);
    Computed result{.loss = *loss, .gradients = {}, .stats = {}};
    for (const gpu::ParamInfo& p : table.trained()) {
      auto& torch = result.gradients[p.name];
      torch.resize(static_cast<std::size_t>(p.count));
      gpu::to_pytorch(p, slot.data() + p.offset, torch.data());
    }
    for (const gpu::StatInfo& s : table.stats())
      result.stats[s.name] = {next.stats.begin() + s.offset,
                              next.stats.begin() + s.offset + s.count};
    return result;
  }

  TEST_CASE("each program computes what it would compute as a model of its own") {
    const ModelProgram all = model();
    for (const CpuClass cpu_class : supported_cpu_classes()) {
      const auto engine = engine_of(all, cpu_class);
      set_by_name(*engine);
      for (std::uint32_t index = 0; index <= all.programs.size(); ++index) {
        CAPTURE(index);
        ModelProgram alone = index == 0 ? model() : all.programs[index - 1];
        if (index == 0) {
          alone.programs.clear();
          alone.states.clear();
          alone.format = kModelFormat;
        }
        const auto own = engine_of(alone, cpu_class);
        set_by_name(*own);
        test::BatchSource batches(job(), gpu::program_layout(alone));
        gpu::Batch batch = batches.make(1, 2);
        const Computed wanted = compute(*own, batch);
        batch.program = index;
        const Computed ours = compute(*engine, batch);
        CHECK(ours.loss == wanted.loss);
        for (const auto& [name, gradient] : ours.gradients) {
          CAPTURE(name);
          const auto found = wanted.gradients.find(name);
          // A parameter that this program does not train has the gradient +0.
          CHECK(gradient == (found != wanted.gradients.end()
                                 ? found->second
                                 : std::vector<float>(gradient.size(), 0.0F)));
        }
        for (const auto& [name, values] : ours.stats) {
          CAPTURE(name);
          const auto found = wanted.stats.find(name);
          if (found != wanted.stats.end()) CHECK(values == found->second);
          const std::vector<float>& before = engine->contexts()[0].stats;
          const auto& stat =
              *std::ranges::find(engine->table().stats(), name, &gpu::StatInfo::name);
          const std::vector<float> kept(before.begin() + stat.offset,
                                        before.begin() + stat.offset + stat.count);
          CHECK((values == kept) == (found == wanted.stats.end()));
        }
        const auto evaluated = engine->evaluate(batch, 3),
                   expected = own->evaluate({batch.words}, 3);
        REQUIRE(evaluated.ok());
        REQUIRE(expected.ok());
        CHECK(evaluated->losses == expected->losses);
        CHECK(std::ranges::equal(evaluated->outputs[0], expected->outputs[0]));
      }
    }
  }

  // --- Bits.

  struct Outcome {
    std::vector<std::vector<float>> losses;
    std::string params, state;
    bool operator==(const Outcome&) const = default;
  };

  std::uint32_t by_rank_and_step(VirtualRank rank, std::uint64_t step) {
    return static_cast<std::uint32_t>((rank + 2 * step + step / 3) % 3);
  }

  Outcome train(const std::vector<WorkerPlan>& workers, std::int64_t bucket_bytes = 64 * 1024,
                std::uint32_t threads = 1, const std::vector<WorkerPlan>& then = {},
                const test::ChooseProgram& choose = by_rank_and_step) {
    const ModelProgram program = model();
    InProcessJob running(job(), program, workers, bucket_bytes, threads, choose);
    Outcome outcome;
    for (int i = 0; i < 5; ++i) {
      if (i == 2 && !then.empty()) running.replace_workers(then);
      outcome.losses.push_back(running.step());
    }
    outcome.params = running.params_digest();
    outcome.state = running.state_digest();
    return outcome;
  }

  TEST_CASE("a model of several programs has the same bits on every placement and kernel class") {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    const CpuClass slow = classes.front(), fast = classes.back();
    const Outcome one = train({{{0, 3}, slow}});
    CHECK(one.losses[0] != one.losses[3]);
    for (const CpuClass middle : classes) {
      CHECK(train({{{0, 3}, middle}}, 64, 2) == one);
      CHECK(train({{{0, 1}, slow}, {{1, 3}, middle}}) == one);
    }
    CHECK(train({{{0, 3}, fast}}, 256, 1, {{{0, 2}, slow}, {{2, 3}, fast}}) == one);
    if (kRunsCudaOnHost) {
      const auto device = gpu::DeviceKind::kCudaHost;
      CHECK(train({{{0, 2}, fast, device}, {{2, 3}, slow}}) == one);
      CHECK(train({{{0, 3}, fast, device}}, 256) == one);
    }
    // Another program for one mini-batch changes them.
    CHECK(train({{{0, 3}, slow}}, 64 * 1024, 1, {}, [](VirtualRank rank, std::uint64_t step) {
            return rank == 1 && step == 3 ? 0 : by_rank_and_step(rank, step);
          }) != one);
  }

  TEST_CASE("the activations of all programs have the memory of the one that needs most") {
    std::int64_t most = 0;
    for (const ModelProgram& program : {large(), frozen()})
      most = std::max(most, engine_of(program, CpuClass::kScalar)->memory_use().arena);
    const std::int64_t all = engine_of(model(), CpuClass::kScalar)->memory_use().arena;
    // In the model the gradients of more parameters are memory for activations.
    CHECK(all > 0);
    CHECK(all <= most);
  }

  // --- Refusals.

  TEST_CASE("a further program that does not fit the model is refused with its place") {
    const auto changed = [](const std::function<void(ModelProgram&)>& change) {
      ModelProgram program = model();
      change(program);
      const Status checked = gpu::check_program(program);
      return checked.ok() ? std::string() : checked.error().message;
    };
    CHECK(changed([](ModelProgram&) {}).empty());
    CHECK(changed([](ModelProgram& p) { p.format = kModelFormatWithStates; }) ==
          "format = 2: allowed is 5 for a model with further programs");
    CHECK(changed([](ModelProgram& p) { p.programs[1].parameters[0].name = "other"; }) ==
          "programs[1]: parameters[0].name = \"other\": allowed is a name in parameters of the "
          "model");
    CHECK(changed([](ModelProgram& p) {
            ModelParameter& scale = p.parameters.back();
            p.values[static_cast<std::size_t>(scale.value)].dims = dims({7});
          }) ==
          "programs[0]: parameters[3].name = \"scale\": its value has another shape than in the "
          "model");
    CHECK(changed([](ModelProgram& p) { p.programs[0].inputs[1].high = 4; }) ==
          "programs[0]: inputs[1]: allowed is \"label\" with the type and range that it has in the "
          "model");
    CHECK(changed([](ModelProgram& p) { p.programs[0].parameters[0].aliases = {"again"}; }) ==
          "programs[0]: parameters[0] has aliases or initial values: allowed in the model itself "
          "only");
    CHECK(changed([](ModelProgram& p) { p.programs[0].states[0].name = "heard"; }) ==
          "states[0] is written by no node: allowed is one set_state");
    CHECK(changed([](ModelProgram& p) {
            p.programs[0].programs = {frozen()};
            p.programs[0].format = kModelFormatWithPrograms;
          }) ==
          "programs[0]: has buffers, updates, numbers, programs or every: allowed in the model "
          "itself only");
    CHECK(changed([](ModelProgram& p) {
            p.programs[1].nodes[0].kind = "covn";
          }).starts_with("programs[1]: nodes[0].kind"));
    CHECK(changed([](ModelProgram& p) {
            for (ModelParameter& parameter : p.programs[1].parameters) parameter.trainable = false;
          }).ends_with("it depends on no parameter that is trained"));
  }
}

}  // namespace
