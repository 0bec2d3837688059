// Models with several losses that take turns (ModelProgram::every), as a GAN: a step changes what
// its loss trains and nothing else, and has the same bits on every placement.
#include <doctest/doctest.h>

#include <functional>

#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "proto/base/loss_turns.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/training.h"

namespace {

TEST_SUITE("gpu/losses") {
  using namespace es;
  using test::InProcessJob;
  using test::ProgramWriter;
  using test::WorkerPlan;
  using Ints = std::vector<std::int64_t>;
  using Shape = std::vector<std::int64_t>;

  constexpr std::uint32_t kMaxP = 3;
  constexpr std::size_t kSteps = 100;

#ifdef __SANITIZE_THREAD__
  constexpr bool kRunsCudaOnHost = false;
#else
  constexpr bool kRunsCudaOnHost = true;
#endif

  // SGD with momentum. `whole`: without the mean of the gradient, which needs the whole parameter.
  ModelProgram momentum(const Shape& shape, bool whole) {
    ProgramWriter w;
    const ValueId parameter = w.parameter_of("parameter", shape, false);
    ValueId gradient = w.parameter_of("gradient", shape, false);
    const ValueId state = w.parameter_of("state.momentum", shape, false);
    const ValueId rate = w.parameter_of("number.0", {}, false);
    if (whole)
      gradient = w.node("sub", {gradient, w.node("mean", {gradient}, {{"axes", Ints{0, 1}}})});
    const ValueId next = w.node("add", {w.node("mul_scalar", {state}, {{"value", 0.9}}), gradient});
    w.output("parameter", w.node("sub", {parameter, w.node("mul", {rate, next})}));
    w.output("state.momentum", next);
    return w.program;
  }

  ModelUpdate update(const std::string& name, const Shape& shape, bool whole = false) {
    return {{name}, {momentum(shape, whole)}, {{0, 0}}};
  }

  void freeze(ModelProgram & program, const std::string& part) {
    for (ModelParameter& parameter : program.parameters)
      if (parameter.name.starts_with(part)) parameter.trainable = false;
  }

  ValueId judged(ProgramWriter & w, ValueId signal, const std::vector<ValueId>& d) {
    const ValueId hidden = w.node("tanh", {w.node("linear", {signal, d[0]})});
    return w.node("linear", {hidden, d[1]});
  }

  // The loss of the discriminator d, or of the generator g.
  ModelProgram loss(bool of_generator) {
    ProgramWriter w;
    const ValueId real = w.input("real", {6}), noise = w.input("noise", {4});
    const ValueId g = w.parameter("g.weight", {6, 4});
    const std::vector<ValueId> d{w.parameter("d.0.weight", {5, 6}),
                                 w.parameter("d.1.weight", {1, 5})};
    ValueId fake = w.batch_norm("g.norm", w.node("linear", {noise, g}));
    if (!of_generator) fake = w.node("stop_gradient", {fake});
    const auto squares = [&](ValueId x, double wanted) {
      const ValueId distance = w.node("add_scalar", {judged(w, x, d)}, {{"value", -wanted}});
      return w.node("mean", {w.node("square", {distance})}, {{"axes", Ints{0, 1}}});
    };
    w.program.loss =
        of_generator
            ? w.node("add", {squares(fake, 1.0),
                             w.node("mse", {fake, real}, {{"reduction", std::string("mean")}})})
            : w.node("add", {squares(real, 1.0), squares(fake, 0.0)});
    w.output("fake", fake);
    freeze(w.program, of_generator ? "d." : "g.");
    return w.program;
  }

  ModelProgram model(std::vector<std::uint32_t> every = {1, 2}) {
    ModelProgram p = loss(false);
    for (ModelParameter& parameter : p.parameters)
      parameter.init = {.constant = 0.1F, .bound = 0.5F};
    p.programs = {loss(true)};
    p.every = std::move(every);
    p.numbers = {{"lr", std::vector<float>(kSteps, 0.02F)}};
    p.updates = {update("d.0.weight", {5, 6}), update("d.1.weight", {1, 5}, true),
                 update("g.weight", {6, 4}, true), update("g.norm.weight", {6}),
                 update("g.norm.bias", {6})};
    p.format = kModelFormatWithPrograms;
    return p;
  }

  JobSpec job() {
    JobSpec spec;
    spec.max_p = kMaxP;
    spec.batch_size = 4;
    spec.steps = kSteps;
    spec.level = DeterminismLevel::kD2;
    spec.optimizer = {.kind = "captured", .learning_rate = 0.02};
    return spec;
  }

  template <class Array>
  bool same(const Array& a, const Array& b, const gpu::ParamInfo& param) {
    return std::equal(a.data() + param.offset, a.data() + param.offset + param.count,
                      b.data() + param.offset);
  }

  TEST_CASE("a step of a loss changes its parameters with their states, and no others") {
    const ModelProgram program = model();
    REQUIRE_MESSAGE(gpu::check_program(program).ok(), gpu::check_program(program).error().message);
    const LossTurns turns = *LossTurns::create(program.every);
    InProcessJob running(job(), program, {{{0, 3}, CpuClass::kScalar}});
    const gpu::ParamTable& table = running.engine(0).table();
    REQUIRE(table.trained().size() == 5);
    for (std::uint64_t step = 0; step < 7; ++step) {
      const gpu::Replica before = running.engine(0).replica();
      running.step();
      const gpu::Replica& after = running.engine(0).replica();
      for (const gpu::ParamInfo& param : table.trained()) {
        CAPTURE(step);
        CAPTURE(param.name);
        const bool own = turns.at(step).loss == (param.name.starts_with("g.") ? 1U : 0U);
        CHECK(same(before.params, after.params, param) != own);
        CHECK(same(before.moments[0], after.moments[0], param) != own);
      }
      // Both losses let the generator compute, so its statistics change in every step.
      CHECK(before.contexts[1].stats != after.contexts[1].stats);
    }
  }

  struct Outcome {
    std::vector<std::vector<float>> losses;
    std::string params, state;
    bool operator==(const Outcome&) const = default;
  };

  Outcome train(const ModelProgram& program, const std::vector<WorkerPlan>& workers,
                std::int64_t bucket_bytes = 64 * 1024, std::uint32_t threads = 1,
                const std::vector<WorkerPlan>& then = {}) {
    InProcessJob running(job(), program, workers, bucket_bytes, threads);
    Outcome outcome;
    for (int i = 0; i < 5; ++i) {
      if (i == 2 && !then.empty()) running.replace_workers(then);
      outcome.losses.push_back(running.step());
    }
    outcome.params = running.params_digest();
    outcome.state = running.state_digest();
    return outcome;
  }

  TEST_CASE("losses that take turns have the same bits on every placement and kernel class") {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    const CpuClass slow = classes.front(), fast = classes.back();
    const ModelProgram program = model();
    const Outcome one = train(program, {{{0, 3}, slow}});
    for (const CpuClass middle : classes) {
      CHECK(train(program, {{{0, 3}, middle}}, 64, 2) == one);
      CHECK(train(program, {{{0, 1}, slow}, {{1, 3}, middle}}) == one);
    }
    CHECK(train(program, {{{0, 3}, fast}}, 256, 1, {{{0, 2}, slow}, {{2, 3}, fast}}) == one);
    if (kRunsCudaOnHost) {
      const auto device = gpu::DeviceKind::kCudaHost;
      CHECK(train(program, {{{0, 2}, fast, device}, {{2, 3}, slow}}) == one);
      // Updates of single elements run on the device.
      ModelProgram elements = program;
      elements.updates[1] = update("d.1.weight", {1, 5});
      elements.updates[2] = update("g.weight", {6, 4});
      CHECK(train(elements, {{{0, 3}, fast, device}}, 64) == train(elements, {{{0, 3}, slow}}));
    }
    // Another order of the turns changes them.
    CHECK(train(model({1, 1}), {{{0, 3}, slow}}) != one);
  }

  TEST_CASE("losses that do not fit together are refused with their place") {
    const auto refusal = [](const std::function<void(ModelProgram&, JobSpec&)>& change) {
      ModelProgram program = model();
      JobSpec spec = job();
      change(program, spec);
      if (const Status checked = gpu::check_program(program); !checked.ok())
        return checked.error().message;
      auto graph = gpu::import_model(program, spec.batch_size);
      if (!graph) return graph.error().message;
      const auto engine = gpu::Engine::create(spec, *std::move(graph), {.total_steps = kSteps});
      return engine.ok() ? std::string() : engine.error().message;
    };
    CHECK(refusal([](ModelProgram&, JobSpec&) {}).empty());
    CHECK(refusal([](ModelProgram& p, JobSpec&) { p.every = {1}; }) ==
          "every has 1 entries: allowed are 2, one for each program, and at least 2");
    CHECK(refusal([](ModelProgram& p, JobSpec&) {
            p.every = {1, 0};
          }) == "every[1] = 0: allowed is 1 to 16384");
    CHECK(refusal([](ModelProgram& p, JobSpec&) {
            p.every = {2, 3};
          }).starts_with("every: no loss makes a step in every iteration"));
    CHECK(refusal([](ModelProgram& p, JobSpec&) {
            for (ModelParameter& parameter : p.programs[0].parameters) parameter.trainable = true;
          })
              .starts_with("programs[0].parameters[1] = \"d.0.weight\" is trainable here and in an "
                           "earlier program"));
    CHECK(refusal([](ModelProgram& p, JobSpec&) {
            p.updates.clear();
            p.numbers.clear();
          }) == "every: allowed in a model with updates, which say what each loss trains");
    CHECK(refusal([](ModelProgram&, JobSpec& spec) { spec.optimizer.ema = 0.5; }) ==
          "optimizer.ema = 0.5: allowed is 0 for a model of several losses");
  }
}

}  // namespace
