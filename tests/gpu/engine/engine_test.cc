#include "gpu/engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "gpu/models/models.h"
#include "tests/gpu/support/training.h"

TEST_SUITE("gpu/engine") {
  using namespace es;
  using namespace es::gpu;

  SampleLayout images(std::int64_t side, std::int64_t channels) {
    return {{{.name = "image", .height = side, .width = side, .channels = channels},
             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  }

  JobSpec small_spec() {
    JobSpec spec;
    spec.max_p = 3;
    spec.batch_size = 4;
    spec.steps = 10;
    spec.level = DeterminismLevel::kD2;
    spec.model = {.name = "small_cnn", .width = 4, .classes = 10};
    return spec;
  }

  std::unique_ptr<Engine> make_engine(const JobSpec& spec) {
    auto engine = *Engine::create(spec, images(8, 1), {});
    REQUIRE(engine->init_replica().ok());
    return engine;
  }

  struct Step {
    std::vector<EstContext> next;
    AlignedBuffer grad;
    std::vector<const float*> reduced;
  };

  // The local steps of all ranks. The gradient of the last rank is kept.
  Step run_ranks(Engine & engine, const JobSpec& spec) {
    Step step{
        std::vector<EstContext>(spec.max_p), AlignedBuffer(engine.table().total_floats()), {}};
    test::BatchSource batches(spec, images(8, 1));
    for (VirtualRank r = 0; r < spec.max_p; ++r)
      REQUIRE(engine
                  .local_step(r, batches.make(r, 0), {0, 1}, step.grad.data(), step.next[r],
                              [](std::uint32_t) {})
                  .ok());
    for (const Bucket& b : engine.buckets()) step.reduced.push_back(step.grad.data() + b.begin);
    return step;
  }

  TEST_CASE("version 0 is a pure function of the spec") {
    JobSpec spec = small_spec();
    const auto a = make_engine(spec);
    const auto b = make_engine(spec);
    CHECK(a->params_digest() == b->params_digest());
    CHECK(a->state_digest() == b->state_digest());
    spec.seed = 2;
    CHECK(make_engine(spec)->params_digest() != a->params_digest());
    CHECK(a->replica().contexts.size() == 3);
    CHECK(a->replica().contexts[2].rank == 2);
  }

  TEST_CASE("an update raises the version and takes over the contexts") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    const Digest params = engine->params_digest();
    const Digest state = engine->state_digest();
    Step step = run_ranks(*engine, spec);
    CHECK(engine->params_digest() == params);
    CHECK(engine->state_digest() == state);
    const std::vector<EstContext> next = step.next;
    REQUIRE(engine->apply_update(step.reduced, std::move(step.next)).ok());
    CHECK(engine->replica().version == 1);
    CHECK(engine->replica().contexts == next);
    CHECK(next[1].cursor == SamplerCursor{0, 1});
    CHECK(engine->params_digest() != params);
    CHECK(engine->state_digest() != state);
  }

  TEST_CASE("the state digest changes with one bit of any context") {
    const auto engine = make_engine(small_spec());
    const Digest before = engine->state_digest();
    Replica replica = engine->replica();
    replica.contexts[2].stats[0] = -0.0F;
    REQUIRE(engine->install(replica).ok());
    CHECK(engine->state_digest() != before);
  }

  // The loss and the next statistics of an EST with the first mini-batch of rank 0.
  std::pair<float, std::vector<float>> step_of(Engine & engine, const JobSpec& spec,
                                               const SampleLayout& layout, VirtualRank rank) {
    test::BatchSource batches(spec, layout);
    AlignedBuffer grad(engine.table().total_floats());
    EstContext next;
    const auto loss =
        engine.local_step(rank, batches.make(0, 0), {}, grad.data(), next, [](std::uint32_t) {});
    REQUIRE(loss.ok());
    return {*loss, next.stats};
  }

  // If all ESTs used those of rank 0, the bits would still be the same on every placement.
  TEST_CASE("an EST continues its own statistics and draws its own numbers") {
    JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    Replica replica = engine->replica();
    std::ranges::fill(replica.contexts[2].stats, 2.0F);
    REQUIRE(engine->install(std::move(replica)).ok());
    const auto first = step_of(*engine, spec, images(8, 1), 0).second;
    const auto third = step_of(*engine, spec, images(8, 1), 2).second;
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i] != third[i]);

    for (const double dropout : {0.5, 0.0}) {
      spec.model = {.name = "vgg11", .size = "tiny", .classes = 10, .dropout = dropout};
      const auto drops = *Engine::create(spec, images(32, 3), {});
      REQUIRE(drops->init_replica().ok());
      const float a = step_of(*drops, spec, images(32, 3), 0).first;
      const float b = step_of(*drops, spec, images(32, 3), 2).first;
      CHECK((a != b) == (dropout != 0.0));
    }
  }

  TEST_CASE("an update with a missing context or one of another version changes nothing") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    const Digest params = engine->params_digest();
    Step step = run_ranks(*engine, spec);
    auto stale = step.next;
    stale[1].version = 0;
    const Status status = engine->apply_update(step.reduced, stale);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("EST context 1") != std::string::npos);
    stale = step.next;
    stale.pop_back();
    CHECK_FALSE(engine->apply_update(step.reduced, stale).ok());
    CHECK(engine->params_digest() == params);
    CHECK(engine->replica().version == 0);
  }

  template <class Array>
  float& first_of(Array & flat, const Engine& engine, std::size_t param) {
    return flat.data()[engine.table().params()[param].offset];
  }

  TEST_CASE(
      "a sum of gradients that is not finite is an error, and the replica is not used again") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    Replica before = engine->replica();
    Step step = run_ranks(*engine, spec);
    first_of(step.grad, *engine, 3) = std::numeric_limits<float>::infinity();
    const Status status = engine->apply_update(step.reduced, step.next);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message ==
          "step 0: the gradient of conv2.weight is not finite in the sum over all ESTs");
    test::BatchSource batches(spec, images(8, 1));
    EstContext next;
    const auto refused = engine->local_step(0, batches.make(0, 0), {}, step.grad.data(), next,
                                            [](std::uint32_t) { FAIL("bucket reported"); });
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message == status.error().message);
    CHECK_FALSE(engine->evaluate(batches.make(0, 0), 1).ok());
    CHECK_FALSE(engine->apply_update(step.reduced, step.next).ok());
    REQUIRE(engine->install(std::move(before)).ok());
    CHECK(engine->evaluate(batches.make(0, 0), 1).ok());
  }

  TEST_CASE("with clipping a sum that is not finite changes nothing") {
    JobSpec spec = small_spec();
    spec.optimizer.clip_norm = 1.0;
    const auto engine = make_engine(spec);
    const Digest params = engine->params_digest();
    Step step = run_ranks(*engine, spec);
    float& poisoned = first_of(step.grad, *engine, 3);
    const float good = std::exchange(poisoned, std::numeric_limits<float>::quiet_NaN());
    const Status status = engine->apply_update(step.reduced, step.next);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message == "step 0: the norm of the gradient is not finite");
    CHECK(engine->params_digest() == params);
    poisoned = good;
    CHECK(engine->apply_update(step.reduced, step.next).ok());
    CHECK(engine->params_digest() != params);
  }

  TEST_CASE("an update that throws a parameter out of range is an error") {
    JobSpec spec = small_spec();
    spec.optimizer.learning_rate = 1e30;
    const auto engine = make_engine(spec);
    Step step = run_ranks(*engine, spec);
    first_of(step.grad, *engine, 3) = 1e20F;
    const Status status = engine->apply_update(step.reduced, step.next);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message ==
          "step 0: after the update of version 0: parameter conv2.weight is not finite");
  }

  // The error of the step of EST 2 when the first element of a parameter is `value`.
  std::string step_error(std::size_t param, float value) {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    Replica replica = engine->replica();
    first_of(replica.params, *engine, param) = value;
    REQUIRE(engine->install(std::move(replica)).ok());
    test::BatchSource batches(spec, images(8, 1));
    AlignedBuffer grad(engine->table().total_floats());
    EstContext next;
    const auto loss =
        engine->local_step(2, batches.make(2, 0), {}, grad.data(), next, [](std::uint32_t) {});
    if (!loss.ok()) CHECK(loss.error().kind == ErrorKind::kFailure);  // The data are valid.
    return loss.ok() ? "" : loss.error().message;
  }

  TEST_CASE("the error about a value that is not finite names rank, step and the first operator") {
    // conv1.weight, bn1.weight, ... fc2.weight: 0, 1, ... 8
    CHECK(step_error(0, 3e38F) ==
          "EST 2, step 0: a value that is not finite; the first operator with such an output: "
          "conv1 (conv2d)");
    CHECK(step_error(8, 3e38F).find("fc2 (linear)") != std::string::npos);
    CHECK(step_error(0, 0.5F).empty());
  }

  TEST_CASE(
      "the error about a gradient that is not finite names rank, step, parameter and operator") {
    JobSpec spec = small_spec();
    spec.model = {.name = "mlp", .width = 4, .classes = 10};
    const auto engine = make_engine(spec);
    Replica replica = engine->replica();
    const auto fill = [&](const char* name, std::int64_t count, float value) {
      for (const ParamInfo& p : engine->table().params())
        if (p.name == name) std::fill_n(replica.params.data() + p.offset, count, value);
    };
    // Black images give activations of 1e20, then about 1, then one logit of 1e20. The loss is
    // finite, and the gradient of net.3.weight is 1e20 * 1e20.
    fill("net.1.bias", 4, 1e20F);
    fill("net.3.weight", 16, 1e-20F);
    fill("net.5.weight", 4, 1e20F);
    REQUIRE(engine->install(std::move(replica)).ok());
    std::vector<float> words(4 * 65);
    for (std::size_t s = 0; s < 4; ++s) words[4 * 64 + s] = std::bit_cast<float>(1);
    AlignedBuffer grad(engine->table().total_floats());
    EstContext next;
    const auto loss = engine->local_step(1, {words.data()}, {}, grad.data(), next,
                                         [](std::uint32_t) { FAIL("bucket reported"); });
    REQUIRE_FALSE(loss.ok());
    CHECK(
        loss.error().message ==
        "EST 1, step 0: the gradient of net.3.weight is not finite; operator: net.3 (linear weight "
        "gradient)");
  }

  TEST_CASE("parameters, moments and statistics that are not finite are not installed") {
    const auto engine = make_engine(small_spec());
    const Digest state = engine->state_digest();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Replica bad_param = engine->replica(), bad_moment = bad_param, bad_stat = bad_param;
    first_of(bad_param.params, *engine, 0) = nan;
    first_of(bad_moment.moments[0], *engine, 3) = nan;
    bad_stat.contexts[1].stats[2] = nan;
    CHECK(engine->install(bad_param).error().message ==
          "version 0: parameter conv1.weight is not finite");
    CHECK(engine->install(bad_moment).error().message ==
          "version 0: the optimizer's moment of conv2.weight is not finite");
    CHECK(engine->install(bad_stat).error().message ==
          "version 0: statistic bn1.running_mean of EST 1 = nan: allowed is a finite number");
    CHECK(engine->state_digest() == state);
  }

  TEST_CASE("values of a batch that are out of range are refused with field, sample and value") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    std::vector<float> words(4 * 65);
    const auto label = [&](std::size_t sample, std::int32_t value) {
      words[4 * 64 + sample] = std::bit_cast<float>(value);
    };
    const auto error = [&]() -> std::string {
      AlignedBuffer grad(engine->table().total_floats());
      EstContext next;
      const auto loss =
          engine->local_step(0, {words.data()}, {}, grad.data(), next, [](std::uint32_t) {});
      const auto evaluated = engine->evaluate({words.data()}, 2);
      CHECK(loss.ok() == evaluated.ok());
      CHECK(loss.ok() == !engine->wrong_sample({words.data()}).has_value());
      if (loss.ok()) return "";
      CHECK(loss.error().kind == ErrorKind::kUsage);  // Only wrong data give a usage error.
      CHECK(evaluated.error().kind == ErrorKind::kUsage);
      return loss.error().message;
    };
    label(1, 9);
    CHECK(error().empty());
    label(2, 10);
    CHECK(engine->wrong_sample({words.data()}) == 2u);
    CHECK(error() == "field label of sample 2 in the batch: value 10: allowed is 0 to 9");
    label(2, -1);
    CHECK(error() == "field label of sample 2 in the batch: value -1: allowed is 0 to 9");
    label(2, 0);
    words[3 * 64 + 5] = std::numeric_limits<float>::infinity();
    CHECK(error() == "field image of sample 3 in the batch: value inf: allowed is a finite number");
  }

  TEST_CASE("an evaluation gives the outputs and the loss of each sample, in any batch") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    test::BatchSource source(spec, images(8, 1));
    const float* all = source.make(0, 0).words;
    // Samples 0, 1, 1, 1.
    std::vector<float> repeated(all, all + 4 * 65);
    for (int s = 2; s < 4; ++s) {
      std::copy_n(&repeated[64], 64, &repeated[static_cast<std::size_t>(s) * 64]);
      repeated[4 * 64 + static_cast<std::size_t>(s)] = repeated[4 * 64 + 1];
    }
    const EvalBatch two = *engine->evaluate({repeated.data()}, 2);
    REQUIRE(two.outputs.size() == 1);
    REQUIRE(two.outputs[0].size() == 20);
    REQUIRE(two.losses.size() == 2);
    const std::vector<float> logits(two.outputs[0].begin(), two.outputs[0].end());
    // In a gradient slot, which is memory for it.
    AlignedBuffer slot(engine->table().trained_floats());
    const EvalBatch four = *engine->evaluate(source.make(0, 0), 4, 0, slot.data());
    CHECK(four.outputs[0].size() == 40);
    CHECK(std::equal(logits.begin(), logits.end(), four.outputs[0].begin()));
    CHECK(four.losses[0] == two.losses[0]);
    CHECK(four.losses[1] == two.losses[1]);
    CHECK(four.losses[2] != two.losses[1]);
  }

  TEST_CASE("a replica of another model is refused") {
    const auto engine = make_engine(small_spec());
    JobSpec wider = small_spec();
    wider.model.width = 8;
    CHECK_FALSE(engine->install(make_engine(wider)->replica()).ok());
    JobSpec more = small_spec();
    more.max_p = 4;
    CHECK_FALSE(engine->install(make_engine(more)->replica()).ok());
  }

  TEST_CASE("the number of moments is that of the optimizer") {
    JobSpec spec = small_spec();
    CHECK(make_engine(spec)->replica().moments.size() == 1);
    spec.optimizer.momentum = 0.0;
    const auto plain = make_engine(spec);
    CHECK(plain->replica().moments.empty());
    CHECK_FALSE(plain->install(make_engine(small_spec())->replica()).ok());
    spec.optimizer.kind = "adam";
    const auto adam = make_engine(spec);
    CHECK(adam->replica().moments.size() == 2);
    const Digest before = adam->state_digest();
    Replica changed = adam->replica();
    changed.moments[1].data()[0] = 1.0F;
    REQUIRE(adam->install(std::move(changed)).ok());
    CHECK(adam->state_digest() != before);
  }

  TEST_CASE("a schedule that ends with the job is refused without the number of steps") {
    for (const char* kind : {"cosine", "linear"}) {
      JobSpec spec = small_spec();
      spec.schedule.kind = kind;
      CHECK_FALSE(Engine::create(spec, images(8, 1), {}).ok());
      CHECK(Engine::create(spec, images(8, 1), {.total_steps = 10}).ok());
    }
  }

  TEST_CASE("the description lists the operators of the model and its use of memory") {
    const auto engine = make_engine(small_spec());
    const EngineDescription d = engine->describe();
    CHECK(d.model == "small_cnn");
    CHECK(d.kernel_class == "cpu-scalar");
    CHECK(d.ops.front().name == "conv1");
    CHECK(d.ops.front().output == "[4,8,8,4]");
    CHECK(d.ops.front().parameters == 36);
    CHECK(d.ops.back().kind == "cross_entropy");
    CHECK(d.memory.arena >= d.memory.arena_live_peak);
    CHECK(d.memory.gradient_slot == d.memory.params);
  }

  TEST_CASE("the memory of an engine is known before it is there") {
    for (const char* optimizer : {"sgd", "adamw"})
      for (const char* model : {"small_cnn", "resnet18", "mlp"}) {
        JobSpec spec = small_spec();
        spec.model.name = model;
        spec.optimizer.kind = optimizer;
        if (spec.optimizer.kind != "sgd") spec.optimizer.momentum = 0;
        const auto graph = build_model(spec.model, spec.batch_size, images(32, 3));
        REQUIRE(graph);
        const auto engine = Engine::create(spec, *graph, {});
        REQUIRE(engine);
        const auto planned = Engine::planned_memory(spec, *graph, {});
        REQUIRE(planned);
        CHECK(*planned == (*engine)->describe().memory);
      }
  }
}
