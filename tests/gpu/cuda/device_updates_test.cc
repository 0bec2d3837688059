// Global steps of a worker that has all ranks, on a device whose streams run in any permitted
// order, compared with the CPU in all bytes. The parameters, the moments and the sum over all ranks
// stay on the device, work is queued ahead, and audits, evaluations and abandoned steps happen
// between the steps.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "gpu/cuda/device_executor.h"
#include "gpu/est/gradient_tree.h"
#include "gpu/graph/fuse.h"
#include "gpu/optim/update.h"
#include "tests/gpu/cuda/shuffled_device.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/device_updates") {
  using namespace es::gpu;
  using es::OptimizerSpec;
  using es::VirtualRank;
  using es::test::ShuffledDevice;
  using es::test::StepRig;

  namespace {

  constexpr std::uint32_t kRanksMax = 16;

  // The events beside the steps of one version.
  struct Events {
    // The number of ranks after which the step is abandoned. Then it begins again.
    std::uint32_t abandoned_after = 0;
    bool evaluates = false, fetches = false, installs = false;
    // After the step of a rank, for another rank.
    std::vector<std::pair<VirtualRank, VirtualRank>> audits;
    // One bit for each rank: its next input is announced.
    std::uint64_t announced = ~std::uint64_t{0};
    // The announced input is not the next one.
    std::uint64_t wrong = 0;
  };

  Events random_events(std::mt19937_64& random, std::uint32_t max_p) {
    const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
    Events events;
    if (one_in(4)) events.abandoned_after = 1 + static_cast<std::uint32_t>(random() % max_p);
    events.evaluates = one_in(3);
    events.fetches = one_in(3);
    events.installs = one_in(6);
    for (int i = one_in(2) ? 2 : 0; i > 0; --i)
      events.audits.emplace_back(one_in(2) ? max_p - 1 : random() % max_p, random() % max_p);
    if (one_in(2)) events.announced = random();
    if (one_in(2)) events.wrong = random() & random();
    return events;
  }

  // The state of a job and its steps on one runner, without an engine.
  class OneWorker {
   public:
    // `on_host`: updates run on the host, though the runner is a device.
    OneWorker(StepRig& rig, StepRunner& runner, const OptimizerSpec& optimizer, std::uint32_t max_p,
              bool on_host = false)
        : rig_(rig),
          runner_(runner),
          max_p_(max_p),
          on_host_(on_host),
          optimizer_(optimizer, {}, 100, max_p,
                     clipped_runs(group_runs(table(), optimizer.groups).value(), table(),
                                  optimizer.clip_groups)
                         .value()),
          replica_(empty_replica(table(), optimizer_.moment_count())),
          next_stats_(max_p),
          slots_(max_live_buffers({0, max_p}, max_p), AlignedBuffer(table().total_floats())),
          alone_(table().total_floats()),
          tree_({0, max_p}, max_p, rig.buckets.size(), [](const PartReady&) {}) {
      replica_.params = rig.params;
      for (VirtualRank rank = 0; rank < max_p; ++rank)
        replica_.contexts.push_back({.rank = rank, .version = 0, .cursor = {}, .stats = rig.stats});
      words_.resize(kRanksMax + 1);
      if (runner.updater() != nullptr) REQUIRE(runner.updater()->room_for(replica_.moments.size()));
    }

    // All reports of a step, and the effects of its events.
    std::vector<float> step(const Events& events) {
      told_.clear();
      for (VirtualRank rank = 0; rank < max_p_; ++rank) words_[rank] = words_of(rank);
      words_[max_p_] = overflowing_words();
      if (events.evaluates) evaluate();
      if (events.abandoned_after != 0) run(events, events.abandoned_after);
      run(events, max_p_);
      if (events.evaluates) evaluate();
      update();
      if (events.fetches) fetch();
      if (events.installs) install();
      return told_;
    }

    es::Digest params_digest() const {
      return runner_.updater() != nullptr && !on_host_ && !fetched_
                 ? runner_.updater()->params_digest({})
                 : es::gpu::params_digest(table(), replica_);
    }
    const Replica& fetch() {
      if (runner_.updater() != nullptr && !on_host_ && !fetched_)
        REQUIRE(runner_.updater()->fetch(replica_).ok());
      fetched_ = true;
      return replica_;
    }

   private:
    const ParamTable& table() const { return rig_.graph().table; }

    // The mini-batch of this version.
    std::vector<float> words_of(VirtualRank rank) const {
      std::mt19937_64 random(replica_.version * 100 + rank);
      std::vector<float> words = rig_.words;
      const es::SampleField& first = rig_.graph().layout.fields[0];
      if (first.type == es::FieldType::kF32)
        for (std::int64_t i = 0; i < rig_.graph().batch * first.words(); ++i)
          words[static_cast<std::size_t>(i)] = std::uniform_real_distribution<float>(-1, 1)(random);
      return words;
    }
    // It is finite and gives a loss that is not finite. A forward pass that is not used must leave
    // no trace.
    std::vector<float> overflowing_words() const {
      std::vector<float> words = rig_.words;
      const es::SampleField& first = rig_.graph().layout.fields[0];
      if (first.type == es::FieldType::kF32)
        std::fill_n(words.data(), rig_.graph().batch * first.words(),
                    std::numeric_limits<float>::max());
      return words;
    }
    StepInput input(VirtualRank rank, std::size_t words) const {
      return {replica_.contexts[rank].stats.data(),
              {words_[words].data(), replica_.version * 100 + words + 1},
              {.seed = 5, .step = static_cast<std::uint32_t>(replica_.version), .rank = rank}};
    }

    void run_one(const StepInput& in, GradientTarget target, std::vector<float>& next_stats,
                 const std::function<void()>& meanwhile,
                 const StepRunner::OnBucketReady& on_bucket_ready) {
      next_stats.assign(rig_.stats.size(), 0.0F);
      const auto result = runner_.run_local_step({.params = replica_.params.data(),
                                                  .stats = in.stats,
                                                  .next_stats = next_stats.data(),
                                                  .gradient = std::move(target),
                                                  .batch = in.batch,
                                                  .key = in.key,
                                                  .meanwhile = meanwhile},
                                                 on_bucket_ready);
      REQUIRE(result.ok());
      CHECK(result->fault.op == nullptr);
      told_.push_back(result->loss);
    }

    void run(const Events& events, std::uint32_t ranks) {
      tree_.release_all();
      for (AlignedBuffer& slot : slots_)
        std::fill_n(slot.data(), slot.floats(), std::numeric_limits<float>::quiet_NaN());
      for (VirtualRank rank = 0; rank < ranks; ++rank) {
        const auto announce = [&] {
          if (rank + 1 == max_p_ || (events.announced >> rank & 1) == 0) return;
          const bool wrong = (events.wrong >> rank & 1) != 0;
          runner_.prefetch(input(rank + 1, wrong ? max_p_ : rank + 1));
        };
        run_one(input(rank, rank),
                {tree_.begin_rank(rank), [&](std::uint32_t slot) { return slots_[slot].data(); }},
                next_stats_[rank], announce, [&](std::uint32_t b) { tree_.bucket_ready(b); });
        for (const auto& [after, of] : events.audits)
          if (after == rank) audit(of);
      }
    }

    // Its words differ from those of the rank, so that a misplaced gradient becomes visible.
    void audit(VirtualRank rank) {
      std::vector<float> next_stats;
      const std::vector<float> words = words_of(50 + rank);
      StepInput in = input(rank, rank);
      in.batch = {words.data()};
      run_one(in, alone_.data(), next_stats, {}, [](std::uint32_t) {});
      told_.insert(told_.end(), alone_.data(), alone_.data() + alone_.floats());
      told_.insert(told_.end(), next_stats.begin(), next_stats.end());
    }

    void evaluate() {
      REQUIRE(runner_
                  .run_eval(replica_.params.data(),
                            {replica_.contexts[0].stats.data(), {words_[0].data()}, {}}, nullptr)
                  .ok());
      const auto values = runner_.values(rig_.graph().row_loss);
      told_.insert(told_.end(), values.begin(), values.end());
    }

    void update() {
      const float* const slot = slots_[tree_.part_slots().front()].data();
      std::vector<const float*> sums;
      for (const Bucket& b : rig_.buckets) sums.push_back(slot + b.begin);
      if (runner_.updater() != nullptr && !on_host_)
        update_on_device(sums);
      else
        update_on_host(sums);
      ++replica_.version;
      for (VirtualRank rank = 0; rank < max_p_; ++rank) {
        replica_.contexts[rank].version = replica_.version;
        std::swap(replica_.contexts[rank].stats, next_stats_[rank]);
      }
    }
    void update_on_device(std::span<const float* const> sums) {
      Updater& updater = *runner_.updater();
      const UpdateStep step = optimizer_.step(replica_.version);
      REQUIRE(updater.begin(sums, replica_).ok());
      std::vector<float> squares(table().params().size());
      if (optimizer_.clips()) {
        REQUIRE(updater.sums_of_squares(squares).ok());
        REQUIRE(optimizer_.clip(table().trained(), squares));
      }
      const auto found = updater.apply(optimizer_, step);
      REQUIRE(found.ok());
      CHECK(found->finite_sums);
      CHECK(found->finite_results);
      fetched_ = false;
    }
    void update_on_host(std::span<const float* const> sums) {
      if (on_host_) REQUIRE(runner_.updater()->fetch_sums(sums).ok());
      const KernelTable& kernels = kernel_table(es::CpuClass::kScalar);
      const ReducedGradient gradient{table(), rig_.buckets, sums};
      const UpdateStep step = optimizer_.step(replica_.version);
      std::vector<float> squares(table().params().size());
      if (optimizer_.clips()) {
        sums_of_squares(gradient, {0, squares.size()}, kernels, rig_.parallel, squares);
        REQUIRE(optimizer_.clip(table().trained(), squares));
      }
      CHECK(update_params(gradient, optimizer_, step, kernels, rig_.parallel, replica_));
      runner_.params_changed();
    }

    // Other parameters at the same version, as from another worker.
    void install() {
      fetch();
      for (std::int64_t i = 0; i < table()[0].count; ++i) replica_.params.data()[i] *= 0.5F;
      runner_.params_changed();
      if (runner_.updater() != nullptr) runner_.updater()->replica_changed();
    }

    StepRig& rig_;
    StepRunner& runner_;
    const std::uint32_t max_p_;
    const bool on_host_;
    Optimizer optimizer_;
    Replica replica_;
    std::vector<std::vector<float>> next_stats_, words_;  // By rank; there is one more input.
    std::vector<AlignedBuffer> slots_;
    AlignedBuffer alone_;
    GradientTree tree_;
    bool fetched_ = true;
    std::vector<float> told_;
  };

  std::unique_ptr<StepRunner> on_device(const StepRig& rig, const Graph& graph,
                                        std::unique_ptr<cuda::Device> device,
                                        std::uint32_t sums = 0) {
    auto runner =
        cuda::DeviceExecutor::create(compile(graph), std::move(device), rig.buckets, nullptr, sums);
    ES_CHECK_MSG(runner.ok(), runner.ok() ? "" : runner.error().message);
    return *std::move(runner);
  }

  bool same_bytes(const float* a, const float* b, std::size_t count) {
    return std::memcmp(a, b, count * sizeof(float)) == 0;
  }
  template <class Array>
  bool same_bytes(const Array& a, const Array& b) {
    return same_bytes(a.data(), b.data(), static_cast<std::size_t>(a.floats()));
  }

  struct Job {
    std::size_t network = 0;
    std::uint32_t max_p = 1, sums = 0;
    OptimizerSpec optimizer;
    bool on_host = false;
  };

  void check_job(const Job& job, std::uint64_t seed, int steps) {
    CAPTURE(seed);
    CAPTURE(job.max_p);
    const Graph graph = es::test::network_cases()[job.network].graph;
    StepRig rig(compile(graph), seed);
    ShuffledDevice::Counts counts;
    const auto runner =
        on_device(rig, graph, std::make_unique<ShuffledDevice>(seed, true, counts), job.sums);
    OneWorker cpu(rig, *rig.executor, job.optimizer, job.max_p);
    OneWorker device(rig, *runner, job.optimizer, job.max_p, job.on_host);
    std::mt19937_64 random(seed);
    for (int i = 0; i < steps; ++i) {
      CAPTURE(i);
      const Events events = random_events(random, job.max_p);
      const std::vector<float> expected = cpu.step(events), got = device.step(events);
      REQUIRE(got.size() == expected.size());
      CHECK(same_bytes(got.data(), expected.data(), got.size()));
      CHECK(device.params_digest() == cpu.params_digest());
    }
    const Replica &expected = cpu.fetch(), &got = device.fetch();
    CHECK(same_bytes(got.params, expected.params));
    for (std::size_t m = 0; m < expected.moments.size(); ++m)
      CHECK(same_bytes(got.moments[m], expected.moments[m]));
    CHECK(got.contexts == expected.contexts);
  }

  std::string first_parameter(std::size_t network) {
    return es::test::network_cases()[network].graph.table.params().front().name;
  }

  const OptimizerSpec kMomentum{.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 1e-3};

  }  // namespace

  TEST_CASE("any number of ESTs, with and without room for their sums") {
    const std::uint64_t seed = es::test::seed("device updates");
    for (std::uint32_t max_p = 1; max_p <= kRanksMax; max_p += max_p < 5 ? 1 : 4)
      for (const std::uint32_t sums : {0U, 1U}) {
        CAPTURE(sums);
        check_job({.max_p = max_p, .sums = sums, .optimizer = kMomentum}, seed + max_p + sums, 5);
      }
  }

  TEST_CASE("every optimizer, with and without clipping") {
    const std::uint64_t seed = es::test::seed("device updates optimizers");
    for (const OptimizerSpec& optimizer :
         {OptimizerSpec{.learning_rate = 0.02, .momentum = 0.0}, kMomentum,
          OptimizerSpec{.kind = "adam", .learning_rate = 1e-3, .weight_decay = 1e-2},
          OptimizerSpec{.kind = "adamw", .learning_rate = 1e-3, .weight_decay = 1e-2}})
      for (const double clip : {0.0, 0.01}) {
        Job job{.max_p = 2, .optimizer = optimizer};
        job.optimizer.clip_norm = clip;
        check_job(job, seed, 4);
      }
  }

  TEST_CASE("an average of the parameters, on the device and on the host") {
    const std::uint64_t seed = es::test::seed("device updates average");
    for (const char* kind : {"sgd", "adamw"})
      for (const double momentum : {0.0, 0.9})
        for (const bool on_host : {false, true}) {
          CAPTURE(kind);
          Job job{.max_p = 2, .on_host = on_host};
          job.optimizer = {.kind = kind, .learning_rate = 1e-3, .momentum = momentum, .ema = 0.9};
          check_job(job, seed, 4);
        }
  }

  TEST_CASE("groups of parameters, on the device and on the host") {
    const std::uint64_t seed = es::test::seed("device updates groups");
    for (const char* kind : {"sgd", "adam", "adamw"})
      for (const bool on_host : {false, true}) {
        CAPTURE(kind);
        Job job{.max_p = 2, .on_host = on_host};
        job.optimizer = {.kind = kind, .learning_rate = 1e-3, .weight_decay = 1e-2};
        job.optimizer.groups = {
            {.parameters = {"*bias"}, .weight_decay = 0.0},
            {.parameters = {first_parameter(job.network)}, .learning_rate_factor = 0.5}};
        check_job(job, seed, 4);
        job.optimizer.clip_norm = 0.1;
        job.optimizer.clip_groups = {
            {.parameters = {first_parameter(job.network)}, .clip_norm = 0.05}};
        check_job(job, seed, 4);
      }
  }

  TEST_CASE("networks with statistics and dropout, with many orders of the streams") {
    const std::uint64_t seed = es::test::seed("device updates orders");
    for (std::uint64_t trial = 0; trial < 12; ++trial)
      check_job({.network = trial % 2 == 0 ? 2U : 0U,
                 .max_p = static_cast<std::uint32_t>(1 + trial % 3),
                 .optimizer = kMomentum},
                seed + trial, 6);
  }

  TEST_CASE("updates on the host fetch the sum that only the device has") {
    const std::uint64_t seed = es::test::seed("device updates on host");
    for (const std::uint32_t max_p : {1U, 3U}) {
      Job job{.max_p = max_p, .optimizer = kMomentum, .on_host = true};
      job.optimizer.clip_norm = 0.1;
      check_job(job, seed + max_p, 5);
    }
  }
}
