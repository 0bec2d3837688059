// Optimizers that a model file brings (ModelProgram::updates): the values of their definitions, and
// the same bits on every placement.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "gpu/engine/captured_updates.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/training.h"

TEST_SUITE("gpu/captured optimizer") {
  using namespace es;
  using test::Dims;
  using test::dims;
  using test::InProcessJob;
  using test::ProgramWriter;
  using test::WorkerPlan;

  constexpr std::uint32_t kMaxP = 3;
  constexpr std::int64_t kSteps = 100;

#ifdef __SANITIZE_THREAD__
  constexpr bool kRunsCudaOnHost = false;
#else
  constexpr bool kRunsCudaOnHost = true;
#endif

  using Shape = std::vector<std::int64_t>;

  // --- Programs of updates.

  struct UpdateWriter {
    explicit UpdateWriter(const Shape& shape)
        : parameter(w.parameter_of("parameter", shape, false)),
          gradient(w.parameter_of("gradient", shape, false)) {}
    ValueId state(const std::string& name, const Shape& shape) {
      names.push_back("state." + name);
      return w.parameter_of(names.back(), shape, false);
    }
    ValueId number(int k) { return w.parameter_of("number." + std::to_string(k), {}, false); }
    ValueId scaled(ValueId x, double factor) {
      return w.node("mul_scalar", {x}, {{"value", factor}});
    }
    ModelProgram finish(ValueId next, const std::vector<ValueId>& states) {
      w.output("parameter", next);
      for (std::size_t s = 0; s < states.size(); ++s) w.output(names[s], states[s]);
      return w.program;
    }

    ProgramWriter w;
    ValueId parameter, gradient;
    std::vector<std::string> names;
  };

  // RMSprop with momentum, element by element; numbers[0] is the learning rate. The first step
  // begins the average with the square itself.
  ModelProgram rms(const Shape& shape, bool first) {
    UpdateWriter u(shape);
    const ValueId square = u.state("square", shape), momentum = u.state("momentum", shape);
    const ValueId rate = u.number(0);
    const ValueId squared = u.w.node("square", {u.gradient});
    const ValueId average =
        first ? squared : u.w.node("add", {u.scaled(square, 0.9), u.scaled(squared, 0.1)});
    const ValueId root = u.w.node("add_scalar", {u.w.node("sqrt", {average})}, {{"value", 1e-6}});
    const ValueId velocity =
        u.w.node("add", {u.scaled(momentum, 0.5), u.w.node("div", {u.gradient, root})});
    const ValueId next = u.w.node("sub", {u.parameter, u.w.node("mul", {rate, velocity})});
    return u.finish(next, {average, velocity});
  }

  // Of a matrix, or of a convolution's weight as one: the momentum m, and its part along the mean
  // of its rows r: p - rate * (m m^T m + r). The rows are a state of another shape.
  ModelProgram cubic(const Shape& shape) {
    using Ints = std::vector<std::int64_t>;
    UpdateWriter u(shape);
    const ValueId m = u.state("momentum", shape), rows = u.state("rows", {shape[0]});
    const ValueId rate = u.number(1);
    const ValueId momentum = u.w.node("add", {u.scaled(m, 0.9), u.gradient});
    std::int64_t columns = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
    const ValueId flat = u.w.shaped("reshape", momentum, dims({shape[0], columns}));
    const ValueId turned = u.w.node("permute", {flat}, {{"order", Ints{1, 0}}});
    const ValueId product = u.w.node("matmul", {u.w.node("matmul", {flat, turned}), flat});
    const ValueId mean = u.w.node("mean", {flat}, {{"axes", Ints{1}}});
    const ValueId next_rows = u.w.node("add", {u.scaled(rows, 0.5), mean});
    const ValueId column = u.w.shaped("reshape", next_rows, dims({shape[0], 1}));
    Dims as_before;
    for (const std::int64_t extent : shape) as_before.push_back({extent, false});
    const ValueId change = u.w.shaped("reshape", u.w.node("add", {product, column}), as_before);
    const ValueId next = u.w.node("sub", {u.parameter, u.w.node("mul", {rate, change})});
    return u.finish(next, {momentum, next_rows});
  }

  ModelUpdate rms_update(const std::string& name, const Shape& shape) {
    return {{name}, {rms(shape, true), rms(shape, false)}, {{0, 0}, {1, 1}}};
  }
  ModelUpdate cubic_update(const std::string& name, const Shape& shape) {
    return {{name}, {cubic(shape)}, {{0, 0}}};
  }

  // A convolution, a linear layer and a loss. The weights are updated as matrices, the biases
  // element by element.
  ModelProgram model() {
    ProgramWriter w;
    const ValueId image = w.input("image", {2, 5, 5}), label = w.ids("label", {}, 3);
    const ValueId conv = w.node("tanh", {w.conv("conv", image, 3, 3, 2, 1)});
    const ValueId pixels = w.shaped("reshape", conv, test::per_sample({27}));
    w.classify(w.linear("fc", pixels, 4), label);
    ModelProgram p = w.program;
    for (ModelParameter& parameter : p.parameters) parameter.init = {.bound = 0.5F};
    p.numbers = {{"lr", {}}, {"matrix lr", {}}};
    for (std::int64_t step = 0; step < kSteps; ++step) {
      p.numbers[0].values.push_back(0.01F / static_cast<float>(1 + step));
      p.numbers[1].values.push_back(0.001F * static_cast<float>(1 + step % 3));
    }
    p.updates = {cubic_update("conv.weight", {3, 2, 3, 3}), cubic_update("fc.weight", {4, 27}),
                 rms_update("fc.bias", {4})};
    p.format = kModelFormatWithUpdates;
    return p;
  }

  JobSpec job() {
    JobSpec spec;
    spec.max_p = kMaxP;
    spec.batch_size = 3;
    spec.steps = kSteps;
    spec.level = DeterminismLevel::kD2;
    spec.model.classes = 4;
    spec.optimizer = {.kind = "captured", .learning_rate = 0.01, .ema = 0.9};
    return spec;
  }

  std::unique_ptr<gpu::Engine> engine_of(const ModelProgram& program, const JobSpec& spec,
                                         gpu::EngineOptions options = {}) {
    options.total_steps = kSteps;
    const Status checked = gpu::check_program(program);
    REQUIRE_MESSAGE(checked.ok(), checked.error().message);
    auto graph = gpu::import_model(program, spec.batch_size);
    REQUIRE(graph.ok());
    auto engine = gpu::Engine::create(spec, *std::move(graph), options);
    REQUIRE_MESSAGE(engine.ok(), engine.error().message);
    return *std::move(engine);
  }

  // --- The same updates in double precision, with the elements in PyTorch's order.

  struct Reference {
    std::vector<double> params, first, second;  // `second`: the rows, or the momentum of rms
  };

  void update_rms(Reference & r, std::span<const double> gradient, double rate, bool first) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double square = gradient[i] * gradient[i];
      r.first[i] = first ? square : 0.9 * r.first[i] + 0.1 * square;
      r.second[i] = 0.5 * r.second[i] + gradient[i] / (std::sqrt(r.first[i]) + 1e-6);
      r.params[i] -= rate * r.second[i];
    }
  }

  void update_cubic(Reference & r, std::span<const double> gradient, double rate,
                    std::size_t rows) {
    const std::size_t columns = gradient.size() / rows;
    for (std::size_t i = 0; i < gradient.size(); ++i) r.first[i] = 0.9 * r.first[i] + gradient[i];
    const auto m = [&](std::size_t i, std::size_t j) { return r.first[i * columns + j]; };
    std::vector<double> square(rows * rows, 0.0);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < rows; ++k)
        for (std::size_t j = 0; j < columns; ++j) square[i * rows + k] += m(i, j) * m(k, j);
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0.0;
      for (std::size_t j = 0; j < columns; ++j) sum += m(i, j);
      r.second[i] = 0.5 * r.second[i] + sum / static_cast<double>(columns);
      for (std::size_t j = 0; j < columns; ++j) {
        double product = 0.0;
        for (std::size_t k = 0; k < rows; ++k) product += square[i * rows + k] * m(k, j);
        r.params[i * columns + j] -= rate * (product + r.second[i]);
      }
    }
  }

  TEST_CASE("a captured optimizer updates parameters as its programs say") {
    const ModelProgram program = model();
    const auto engine = engine_of(program, job());
    REQUIRE(engine->init_replica().ok());
    REQUIRE(engine->moment_count() == 3);  // two arrays of states, and the average
    const gpu::ParamTable& table = engine->table();
    std::vector<Reference> references;
    for (const gpu::ParamInfo& p : table.trained()) {
      std::vector<float> torch(static_cast<std::size_t>(p.count));
      gpu::to_pytorch(p, engine->replica().params.data() + p.offset, torch.data());
      references.push_back({{torch.begin(), torch.end()},
                            std::vector<double>(torch.size()),
                            std::vector<double>(torch.size())});
    }
    for (std::uint32_t step = 0; step < 4; ++step) {
      gpu::AlignedBuffer sums(table.total_floats());
      for (std::size_t i = 0; i < table.trained().size(); ++i) {
        const gpu::ParamInfo& p = table.trained()[i];
        std::vector<float> torch;
        for (std::int64_t k = 0; k < p.count; ++k)
          torch.push_back(uniform_float(philox4x32_10({static_cast<std::uint32_t>(k),
                                                       static_cast<std::uint32_t>(i), step, 0},
                                                      philox_key(7))[0]) -
                          0.4F);
        gpu::from_pytorch(p, torch.data(), sums.data() + p.offset);
        std::vector<double> mean;
        for (const float sum : torch) mean.push_back(double{sum} / kMaxP);
        if (p.name == "fc.bias")
          update_rms(references[i], mean, double{program.numbers[0].values[step]}, step == 0);
        else
          update_cubic(references[i], mean, double{program.numbers[1].values[step]},
                       static_cast<std::size_t>(p.torch_shape[0]));
      }
      std::vector<const float*> buckets;
      for (const gpu::Bucket& bucket : engine->buckets())
        buckets.push_back(sums.data() + bucket.begin);
      std::vector<gpu::EstContext> next = engine->contexts();
      for (gpu::EstContext& context : next) ++context.version;
      REQUIRE(engine->apply_update(buckets, next).ok());
    }
    for (std::size_t i = 0; i < table.trained().size(); ++i) {
      const gpu::ParamInfo& p = table.trained()[i];
      CAPTURE(p.name);
      const auto check = [&](const float* ours, std::span<const double> wanted, bool in_order) {
        std::vector<float> torch(ours, ours + wanted.size());
        if (!in_order) gpu::to_pytorch(p, ours, torch.data());
        for (std::size_t k = 0; k < wanted.size(); ++k)
          CHECK(double{torch[k]} == doctest::Approx(wanted[k]).epsilon(2e-5));
      };
      const gpu::Replica& replica = engine->replica();
      const bool rms = p.name == "fc.bias";
      check(replica.params.data() + p.offset, references[i].params, false);
      check(replica.moments[0].data() + p.offset, references[i].first, false);
      const auto count = static_cast<std::size_t>(rms ? p.count : p.torch_shape[0]);
      check(replica.moments[1].data() + p.offset, std::span(references[i].second).first(count),
            !rms);
    }
  }

  // --- Bits.

  struct Outcome {
    std::vector<std::vector<float>> losses;
    std::string params, state;
    bool operator==(const Outcome&) const = default;
  };

  Outcome train(const ModelProgram& program, const std::vector<WorkerPlan>& workers,
                std::int64_t bucket_bytes = 64 * 1024, std::uint32_t threads = 1,
                const std::vector<WorkerPlan>& then = {}, const JobSpec& spec = job()) {
    InProcessJob running(spec, program, workers, bucket_bytes, threads);
    Outcome outcome;
    for (int i = 0; i < 4; ++i) {
      if (i == 2 && !then.empty()) running.replace_workers(then);
      outcome.losses.push_back(running.step());
    }
    outcome.params = running.params_digest();
    outcome.state = running.state_digest();
    return outcome;
  }

  TEST_CASE("a captured optimizer has the same bits on every placement and kernel class") {
    const std::vector<CpuClass> classes = supported_cpu_classes();
    const CpuClass slow = classes.front(), fast = classes.back();
    const ModelProgram program = model();
    const Outcome one = train(program, {{{0, 3}, slow}});
    CHECK(one.losses[0] != one.losses[3]);
    for (const CpuClass middle : classes) {
      CHECK(train(program, {{{0, 3}, middle}}, 64, 2) == one);
      CHECK(train(program, {{{0, 1}, slow}, {{1, 3}, middle}}) == one);
    }
    CHECK(train(program, {{{0, 3}, fast}}, 256, 1, {{{0, 2}, slow}, {{2, 3}, fast}}) == one);
    if (kRunsCudaOnHost) {
      CHECK(train(program, {{{0, 2}, fast, gpu::DeviceKind::kCudaHost}, {{2, 3}, slow}}) == one);
      ModelProgram elements = program;
      elements.updates = {rms_update("conv.weight", {3, 2, 3, 3}), rms_update("fc.weight", {4, 27}),
                          rms_update("fc.bias", {4})};
      CHECK(train(elements, {{{0, 3}, fast, gpu::DeviceKind::kCudaHost}}) ==
            train(elements, {{{0, 3}, slow}}));
    }
    // A number of one step, or a constant of the second program, changes them.
    ModelProgram other = program;
    other.numbers[1].values[3] *= 1.0000002F;
    CHECK(train(other, {{{0, 3}, slow}}) != one);
  }

  TEST_CASE("updates by elements and of whole parameters have the scales of their clip groups") {
    const CpuClass slow = supported_cpu_classes().front(), fast = supported_cpu_classes().back();
    JobSpec clipped = job();
    clipped.optimizer.clip_norm = 0.3;
    clipped.optimizer.clip_groups = {{.parameters = {"fc.*"}, .clip_norm = 0.1}};
    const Outcome one = train(model(), {{{0, 3}, slow}}, 64, 1, {}, clipped);
    CHECK(train(model(), {{{0, 2}, fast}, {{2, 3}, slow}}, 256, 2, {}, clipped) == one);
    if (kRunsCudaOnHost)
      CHECK(train(model(), {{{0, 3}, fast, gpu::DeviceKind::kCudaHost}}, 64, 1, {}, clipped) ==
            one);
    for (const bool of_group : {false, true}) {
      JobSpec other = clipped;
      (of_group ? other.optimizer.clip_groups[0].clip_norm : other.optimizer.clip_norm) *= 1.01;
      CHECK(train(model(), {{{0, 3}, slow}}, 64, 1, {}, other).params != one.params);
    }
  }

  TEST_CASE(
      "updates by elements and of whole parameters have the same bytes with divided moments") {
    const CpuClass slow = supported_cpu_classes().front(), fast = supported_cpu_classes().back();
    ModelProgram elements = model();
    elements.updates = {rms_update("conv.weight", {3, 2, 3, 3}), rms_update("fc.weight", {4, 27}),
                        rms_update("fc.bias", {4})};
    JobSpec clipped = job();
    clipped.optimizer.clip_norm = 0.3;
    clipped.optimizer.clip_groups = {{.parameters = {"fc.*"}, .clip_norm = 0.1}};
    for (const ModelProgram& program : {model(), elements})
      for (const JobSpec& spec : {job(), clipped}) {
        InProcessJob whole(spec, program, {{{0, 3}, slow}}, 64);
        InProcessJob divided(spec, program, {{{0, 1}, fast}, {{1, 2}, slow}, {{2, 3}, fast}}, 64);
        REQUIRE(whole.engine(0).buckets().size() == 3);
        for (const std::size_t first : {0U, 0U, 1U, 2U}) {
          CHECK(divided.step() == whole.step());
          divided.divide_moments(first);
          CHECK(divided.equals(whole));
        }
        CHECK(divided.step() == whole.step());
        CHECK(divided.equals(whole));
      }
  }

  // The digest of the parameters after two updates with rates that were lowered so often.
  std::string updated(const ModelProgram& program, std::uint32_t reductions) {
    const auto engine = engine_of(program, job());
    REQUIRE(engine->init_replica().ok());
    gpu::AlignedBuffer sums(engine->table().total_floats());
    for (const gpu::ParamInfo& p : engine->table().trained())
      for (std::int64_t k = 0; k < p.count; ++k)
        sums.data()[p.offset + k] = 0.1F * static_cast<float>(k % 7 - 3);
    std::vector<const float*> buckets;
    for (const gpu::Bucket& bucket : engine->buckets())
      buckets.push_back(sums.data() + bucket.begin);
    for (int step = 0; step < 2; ++step) {
      std::vector<gpu::EstContext> next = engine->contexts();
      for (gpu::EstContext& context : next) ++context.version;
      REQUIRE(engine->apply_update(buckets, next, reductions).ok());
    }
    return engine->params_digest().hex();
  }

  TEST_CASE("a lowered rate has the bits of an optimizer that has this rate from the beginning") {
    ModelProgram lowered = model();
    lowered.format = kModelFormatWithReductions;
    std::vector<ModelProgram> always(3, model());
    for (std::size_t n = 0; n < 2; ++n)
      for (std::uint32_t times = 1; times <= 2; ++times) {
        std::vector<float>& own = always[times].numbers[n].values;
        for (float& value : own) value *= times == 1 ? 0.5F : 0.1F;
        lowered.numbers[n].reductions = times;
        lowered.numbers[n].values.insert(lowered.numbers[n].values.end(), own.begin(), own.end());
      }
    for (std::uint32_t times = 0; times < 5; ++times)
      CHECK(updated(lowered, times) == updated(always[std::min(times, 2U)], 0));
    CHECK(updated(always[1], 0) != updated(always[2], 0));
  }

  TEST_CASE("the padding behind a parameter stays +0 where an update would make it NaN") {
    ModelProgram program = model();
    UpdateWriter u({4});
    // g / |g|, which is 0 / 0 where the gradient is 0.
    program.updates[2].programs = {u.finish(
        u.w.node("sub",
                 {u.parameter, u.w.node("div", {u.gradient, u.w.node("abs", {u.gradient})})}),
        {})};
    program.updates[2].phases = {{0, 0}};
    InProcessJob running(job(), program, {{{0, 3}, CpuClass::kScalar}});
    const std::vector<float> first = running.step();
    CHECK(running.step() != first);
    const gpu::ParamTable& table = running.engine(0).table();
    const float* const params = running.engine(0).replica().params.data();
    for (std::size_t i = 0; i < table.params().size(); ++i)
      for (std::int64_t at = table.params()[i].offset + table.params()[i].count;
           at < table.padded_end(static_cast<gpu::ParamId>(i)); ++at)
        CHECK(std::bit_cast<std::uint32_t>(params[at]) == 0);
  }

  // A step subtracts a hundredth of the gradient; with `kept`, evaluations use the parameter + 1.
  ModelUpdate shifted(const std::string& name, const Shape& shape, bool kept) {
    UpdateWriter u(shape);
    std::vector<ValueId> states;
    if (kept) u.state(kEvaluatedState, shape);
    const ValueId next = u.w.node("sub", {u.parameter, u.scaled(u.gradient, 0.01)});
    if (kept) states.push_back(u.w.node("add_scalar", {next}, {{"value", 1.0}}));
    return {{name}, {u.finish(next, states)}, {{0, 0}}};
  }

  TEST_CASE("evaluations use the state named evaluated of the parameters that have one") {
    for (const gpu::DeviceKind device : {gpu::DeviceKind::kCpu, gpu::DeviceKind::kCudaHost}) {
      if (device == gpu::DeviceKind::kCudaHost && !kRunsCudaOnHost) continue;
      JobSpec spec = job();
      spec.optimizer.ema = 0.0;
      const auto program_with = [&](bool kept) {
        ModelProgram program = model();
        program.updates = {shifted("conv.weight", {3, 2, 3, 3}, kept),
                           shifted("fc.weight", {4, 27}, false), shifted("fc.bias", {4}, kept)};
        return program;
      };
      const ModelProgram with = program_with(true), without = program_with(false);
      InProcessJob kept(spec, with, {{{0, 3}, CpuClass::kScalar, device}});
      InProcessJob plain(spec, without, {{{0, 3}, CpuClass::kScalar, device}});
      gpu::Engine& one = kept.engine(0);
      const SampleLayout layout = gpu::program_layout(with);
      std::vector<float> words(static_cast<std::size_t>(layout.words() * spec.batch_size), 0.25F);
      for (std::size_t i = words.size() - spec.batch_size; i < words.size(); ++i) words[i] = 0.0F;
      const auto loss_of = [&](gpu::Engine& engine) {
        const auto found = engine.evaluate({words.data()}, 1);
        REQUIRE_MESSAGE(found.ok(), found.error().message);
        return found->losses[0];
      };
      CHECK(loss_of(one) == loss_of(plain.engine(0)));  // no step has made the state
      for (int i = 0; i < 2; ++i) CHECK(kept.step() == plain.step());
      const double loss = loss_of(one);
      CHECK(loss != loss_of(plain.engine(0)));
      const auto moved = engine_of(without, spec);
      REQUIRE(plain.engine(0).fetch_replica().ok());
      gpu::Replica replica = plain.engine(0).replica();
      for (const gpu::ParamInfo& param : moved->table().trained())
        for (std::int64_t i = 0; i < param.count && param.name != "fc.weight"; ++i)
          replica.params.data()[param.offset + i] += 1.0F;
      REQUIRE(moved->install(std::move(replica)).ok());
      CHECK(loss_of(*moved) == loss);
      CHECK(kept.step() == plain.step());  // training goes on with the parameters
      CHECK(kept.params_digest() == plain.params_digest());
    }
  }

  // --- Refusals.

  TEST_CASE("an optimizer that does not fit the job or the model is refused with its place") {
    const auto refusal = [](const ModelProgram& program, const JobSpec& spec,
                            std::uint64_t steps = kSteps) {
      if (const Status checked = gpu::check_program(program); !checked.ok())
        return checked.error().message;
      auto graph = gpu::import_model(program, spec.batch_size);
      if (!graph) return graph.error().message;
      const auto engine = gpu::Engine::create(spec, *std::move(graph), {.total_steps = steps});
      return engine.ok() ? std::string() : engine.error().message;
    };
    CHECK(refusal(model(), job()).empty());
    JobSpec sgd = job();
    sgd.optimizer.kind = "sgd";
    CHECK(refusal(model(), sgd).starts_with("optimizer.kind = \"sgd\": allowed is \"captured\""));
    CHECK(refusal(model(), job(), kSteps + 1).starts_with("steps = 101: allowed are at most 100"));
    JobSpec plateau = job();
    plateau.schedule.kind = "plateau";
    CHECK(refusal(model(), plateau)
              .starts_with("schedule.kind = \"plateau\": allowed is another one, because"));
    ModelProgram none = model();
    none.updates.clear();
    none.numbers.clear();
    none.format = kModelFormat;
    CHECK(refusal(none, job()).starts_with("optimizer.kind = \"captured\": allowed is \"sgd\""));

    const auto changed = [&](const std::function<void(ModelProgram&)>& change) {
      ModelProgram program = model();
      change(program);
      return refusal(program, job());
    };
    CHECK(changed([](ModelProgram& p) { p.format = kModelFormat; }) ==
          "format = 1: allowed is 4 for a model with updates");
    CHECK(changed([](ModelProgram& p) { p.updates.pop_back(); }) ==
          "optimizer.kind = \"captured\": the model file has no update of the parameter "
          "\"fc.bias\"");
    CHECK(changed([](ModelProgram& p) { p.updates[0].parameters = {"nothing"}; }) ==
          "updates[0].parameters[0] = \"nothing\": allowed is a parameter of the model that is "
          "trainable");
    CHECK(changed([](ModelProgram& p) { p.updates[1].parameters.push_back("fc.weight"); }) ==
          "updates[1].parameters[1] = \"fc.weight\": the parameter is updated twice");
    CHECK(
        changed([](ModelProgram& p) { p.updates[2].phases[1].first_step = 0; }) ==
        "updates[2].phases[1].firstStep = 0: allowed is a later step than that of the phase before "
        "it");
    CHECK(changed([](ModelProgram& p) { p.updates[2].phases[1].program = 2; }) ==
          "updates[2].phases[1].program = 2: allowed is 0 to 1");
    CHECK(changed(
              [](ModelProgram& p) { p.updates[2].programs[1].parameters[4].name = "number.2"; }) ==
          "updates[2].programs[1].parameters[4].name = \"number.2\": allowed is number.0 to "
          "number.1");
    CHECK(
        changed([](ModelProgram& p) { p.updates[2].programs[1].outputs.pop_back(); }) ==
        "updates[2].programs[1].outputs has 2 entries: allowed are the parameter and its 2 states");
    CHECK(changed([](ModelProgram& p) {
            p.updates[2].programs[1].nodes[0].kind = "sqare";
          }).starts_with("updates[2].programs[1].nodes[0].kind"));
    CHECK(changed([](ModelProgram& p) {
            p.numbers[1].values.pop_back();
          }).starts_with("numbers[1].values has 99 entries"));
    CHECK(changed([](ModelProgram& p) {
            p.format = kModelFormatWithReductions;
            p.numbers[1].reductions = 1;
          }).ends_with("and as many for each of the 1 reductions"));
    CHECK(changed([](ModelProgram& p) {
            p.numbers[1].values.resize(2 * kSteps);
            p.numbers[1].reductions = 1;
          }) == "format = 4: allowed is 6 for a model with numbers of lowered rates");
    CHECK(changed([](ModelProgram& p) {
            UpdateWriter u({4});
            const ValueId other = u.state(kEvaluatedState, {3});
            p.updates[2].programs = {u.finish(u.parameter, {other})};
            p.updates[2].phases = {{0, 0}};
          }) ==
          "updates[2].programs[0].parameters[2].value has another shape than the parameters "
          "of the update");
    CHECK(changed([](ModelProgram& p) { p.numbers[1].values[5] = INFINITY; }) ==
          "numbers[1].values[5] is not finite");
    CHECK(changed([](ModelProgram& p) {
            UpdateWriter u({4});
            const ValueId large = u.state("large", {17});
            p.updates[2].programs = {u.finish(u.parameter, {large})};
            p.updates[2].phases = {{0, 0}};
          }).starts_with("optimizer.kind = \"captured\": the states of \"fc.bias\" are too large"));
  }
}
