#include "gpu/engine.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/gpu/support/training.h"

TEST_SUITE("gpu/engine") {
  using namespace es;
  using namespace es::gpu;

  constexpr DataShape kImage{8, 8, 1};

  JobSpec small_spec() {
    JobSpec spec;
    spec.max_p = 3;
    spec.batch_size = 4;
    spec.steps = 10;
    spec.model = {.name = "small_cnn", .width = 4, .classes = 10};
    return spec;
  }

  std::unique_ptr<Engine> make_engine(const JobSpec& spec) {
    auto engine = *Engine::create(spec, kImage, {});
    engine->init_replica();
    return engine;
  }

  struct Step {
    std::vector<EstContext> next;
    AlignedBuffer grad;
    std::vector<const float*> reduced;
  };

  // All ranks' local steps; the gradient kept is the last rank's.
  Step run_ranks(Engine & engine, const JobSpec& spec) {
    Step step{
        std::vector<EstContext>(spec.max_p), AlignedBuffer(engine.table().total_floats()), {}};
    test::BatchSource batches(spec, kImage);
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

  TEST_CASE("the state digest sees one bit of any context") {
    const auto engine = make_engine(small_spec());
    const Digest before = engine->state_digest();
    Replica replica = engine->replica();
    replica.contexts[2].stats[0] = -0.0F;
    REQUIRE(engine->install(replica).ok());
    CHECK(engine->state_digest() != before);
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

  TEST_CASE("a gradient that is not finite is named and not applied") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    const Digest params = engine->params_digest();
    Step step = run_ranks(*engine, spec);
    const ParamInfo& param = engine->table()[3];
    step.grad.data()[param.offset + 1] = std::numeric_limits<float>::infinity();
    const Status status = engine->apply_update(step.reduced, step.next);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message == "step 0: the gradient of conv2.weight is not finite");
    CHECK(engine->params_digest() == params);
  }

  TEST_CASE("a loss that is not finite names rank, step and operator") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    Replica replica = engine->replica();
    replica.params.data()[engine->table()[0].offset] = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(engine->install(replica).ok());
    test::BatchSource batches(spec, kImage);
    AlignedBuffer grad(engine->table().total_floats());
    EstContext next;
    const auto loss = engine->local_step(2, batches.make(2, 0), {}, grad.data(), next,
                                         [](std::uint32_t) { FAIL("bucket reported"); });
    REQUIRE_FALSE(loss.ok());
    CHECK(loss.error().message.find("EST 2, step 0") != std::string::npos);
    CHECK(loss.error().message.find("conv1 (conv2d)") != std::string::npos);
  }

  TEST_CASE("labels beyond the classes are refused") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    const std::vector<float> images(4 * 64);
    const std::vector<std::int32_t> labels{0, 9, 10, 0};
    AlignedBuffer grad(engine->table().total_floats());
    EstContext next;
    const auto loss = engine->local_step(0, {images.data(), labels.data()}, {}, grad.data(), next,
                                         [](std::uint32_t) {});
    REQUIRE_FALSE(loss.ok());
    CHECK(loss.error().message ==
          "label 10 of sample 2 in the batch: allowed is 0 to 9 (model.classes)");
    CHECK_FALSE(engine->evaluate({images.data(), labels.data()}, 4).ok());
    CHECK(engine->evaluate({images.data(), labels.data()}, 2).ok());
  }

  TEST_CASE("an evaluation counts every sample once, also in an incomplete last batch") {
    const JobSpec spec = small_spec();
    const auto engine = make_engine(spec);
    JobSpec all_at_once = spec;
    all_at_once.batch_size = 11;
    test::BatchSource source(all_at_once, kImage);
    const Batch samples = source.make(0, 0);
    const auto pieces = engine->evaluate(samples, 11);
    const auto whole = make_engine(all_at_once)->evaluate(samples, 11);
    REQUIRE(pieces.ok());
    CHECK(pieces->samples == 11);
    CHECK(pieces->correct == whole->correct);
    CHECK(pieces->loss_sum == whole->loss_sum);
    CHECK(engine->evaluate(samples, 0)->samples == 0);
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

  TEST_CASE("a cosine schedule without the number of steps is refused") {
    JobSpec spec = small_spec();
    spec.schedule.kind = "cosine";
    CHECK_FALSE(Engine::create(spec, kImage, {}).ok());
    CHECK(Engine::create(spec, kImage, {.total_steps = 10}).ok());
  }

  TEST_CASE("the description lists the model's operators and where memory goes") {
    const auto engine = make_engine(small_spec());
    const EngineDescription d = engine->describe();
    CHECK(d.model == "small_cnn");
    CHECK(d.kernel_class == "cpu-scalar");
    CHECK(d.ops.front().name == "conv1");
    CHECK(d.ops.front().output == "[4,8,8,4]");
    CHECK(d.ops.front().parameters == 36);
    CHECK(d.ops.back().kind == "softmax_cross_entropy");
    CHECK(d.memory.arena >= d.memory.arena_live_peak);
    CHECK(d.memory.gradient_slot == d.memory.params);
  }
}
