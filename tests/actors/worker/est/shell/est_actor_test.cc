#include "actors/worker/est/shell/est_actor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <deque>
#include <random>
#include <string>

#include "actors/worker/data_workers/shell/data_workers_actor.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::actors;

namespace {

constexpr Version kLast = 4;
constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kBadSample = 11;

// Sample i is the number i. One of the samples cannot be loaded.
class Numbers final : public store::SampleSource {
 public:
  const SampleLayout& layout() const override { return layout_; }
  std::uint64_t train_count() const override { return kSamples; }
  std::uint64_t eval_count() const override { return 0; }
  std::uint64_t eval_group() const override { return 1; }
  Status fill_train(std::uint64_t, std::span<const std::uint64_t> samples,
                    std::span<float> words) const override {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] == kBadSample) return usage_error("record 11 of numbers: damaged");
      words[i] = static_cast<float>(samples[i]);
    }
    return {};
  }
  Status fill_eval(std::uint64_t, std::uint64_t, std::uint64_t, std::span<float>) const override {
    return {};
  }

 private:
  SampleLayout layout_{{SampleField{.name = "number"}}};
};

// An EST with a device that records its requests, and with data workers that answer when the test
// requests it.
class Bench {
 public:
  explicit Bench(std::uint32_t slots = 2, std::uint32_t loaders = 1) : system_(configure(config_)) {
    sched_ = dynamic_cast<caf::scheduler::test_coordinator*>(&system_.scheduler());
    REQUIRE(sched_ != nullptr);
    auto sampler =
        store::EpochSampler::create({.samples = kSamples, .max_p = 4, .batch_size = 2, .seed = 1});
    REQUIRE(sampler.ok());
    source_ = std::make_shared<DataSource>(
        DataSource{std::make_shared<Numbers>(), *sampler, BatchPool(slots, 2)});
    std::vector<caf::actor> pool;
    for (std::uint32_t i = 0; i < loaders; ++i)
      pool.push_back(system_.spawn(loader_actor, std::shared_ptr<DataSource>(source_), 0U));
    loaders_ = pool;
    data_ = system_.spawn(data_workers_actor, slots, std::move(pool));
    device_ = system_.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const Msg<wire::RunLocalStep>& m) {
        auto view = m.view();
        asked_.push_back(
            {view->getStep(), view->getRank(), view->getSlot(), view->getError().cStr()});
      }};
    });
    for (VirtualRank rank = 0; rank < 4; ++rank)
      ests_.push_back(system_.spawn(est_actor, rank, kLast, device_, data_));
  }
  ~Bench() {
    for (const caf::actor& a : ests_) caf::anon_send_exit(a, caf::exit_reason::kill);
    caf::anon_send_exit(device_, caf::exit_reason::kill);
    caf::anon_send_exit(data_, caf::exit_reason::kill);
    for (const caf::actor& a : loaders_) caf::anon_send_exit(a, caf::exit_reason::kill);
    ests_.clear();
    run();
  }

  struct Asked {
    Version step;
    VirtualRank rank;
    std::uint32_t slot;
    std::string error;
  };

  void grant(VirtualRank rank, Version step) {
    caf::anon_send(ests_[rank], Msg<wire::GrantSlice>::build({}, [&](wire::GrantSlice::Builder b) {
                     b.setGeneration(1);
                     b.setStep(step);
                   }));
    run();
  }
  void dismiss(VirtualRank rank) {
    caf::anon_send(ests_[rank], Msg<wire::Dismiss>::build({}, [](auto) {}));
    run();
  }
  // What the device sends before it waits for a slice.
  void expect(VirtualRank rank, Version step) {
    caf::anon_send(data_, Msg<wire::NextSlice>::build({}, [&](wire::NextSlice::Builder b) {
                     b.setStep(step);
                     b.setRank(rank);
                   }));
    run();
  }
  // The device runs the slice of `rank`, which must have its mini-batch at this time.
  Asked finish(VirtualRank rank) {
    const auto at =
        std::find_if(asked_.begin(), asked_.end(), [&](const Asked& a) { return a.rank == rank; });
    REQUIRE(at != asked_.end());
    const Asked slice = *at;
    asked_.erase(at);
    caf::anon_send(ests_[slice.rank],
                   Msg<wire::SliceDone>::build({}, [&](wire::SliceDone::Builder b) {
                     b.setStep(slice.step);
                     b.setRank(slice.rank);
                     b.setSlot(slice.slot);
                   }));
    run();
    return slice;
  }
  std::size_t waiting() const { return asked_.size(); }
  DataSource& source() { return *source_; }

 private:
  static caf::actor_system_config& configure(caf::actor_system_config& config) {
    config.set("scheduler.policy", caf::atom("testing"));
    return config;
  }
  void run() {
    while (sched_->try_run_once()) {
    }
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator* sched_;
  std::shared_ptr<DataSource> source_;
  caf::actor data_, device_;
  std::vector<caf::actor> ests_, loaders_;
  std::deque<Asked> asked_;
};

}  // namespace

TEST_SUITE("actors/worker/est") {
  TEST_CASE("a granted slice runs with the mini-batch of that step and rank") {
    Bench bench;
    bench.expect(2, 3);
    bench.grant(2, 3);
    const Bench::Asked slice = bench.finish(2);
    CHECK(slice.step == 3);
    CHECK(slice.error.empty());
    DataSource& source = bench.source();
    const auto loaded = source.pool.words(slice.slot);
    for (std::uint32_t i = 0; i < 2; ++i)
      CHECK(loaded[i] == static_cast<float>(source.sampler.sample(source.sampler.cursor(3), 2, i)));
  }

  // The ESTs' requests may arrive in any order, and the device runs them in rank order.
  TEST_CASE(
      "four ESTs never block each other, with any number of slots and any order of requests") {
    std::mt19937_64 random(es::test::seed("est_actor"));
    for (std::uint32_t slots = 1; slots <= 8; ++slots) {
      Bench bench(1 + slots % 4, 1 + slots / 4);
      for (Version step = 0; step < kLast; ++step) {
        std::vector<VirtualRank> order = {0, 1, 2, 3};
        std::shuffle(order.begin(), order.end(), random);
        bench.expect(0, step);
        for (const VirtualRank rank : order) bench.grant(rank, step);
        for (VirtualRank rank = 0; rank < 4; ++rank) {
          CHECK(bench.finish(rank).step == step);
          bench.expect((rank + 1) % 4, rank == 3 ? step + 1 : step);
        }
      }
      CHECK(bench.waiting() == 0);
    }
  }

  TEST_CASE(
      "a step that is granted again runs again, although the next mini-batch was requested "
      "already") {
    Bench bench(2);
    bench.expect(0, 0);
    bench.grant(0, 0);
    bench.finish(0);  // This fetches the mini-batch of step 1 ahead.
    bench.expect(0, 0);
    bench.grant(0, 0);
    CHECK(bench.finish(0).step == 0);
    bench.expect(0, 1);
    bench.grant(0, 1);
    CHECK(bench.finish(0).step == 1);
  }

  TEST_CASE("an EST that is dismissed gives its slot back to the others") {
    Bench bench(1);
    bench.expect(0, 0);
    bench.grant(0, 0);
    bench.expect(0, 1);
    bench.finish(0);  // It now holds the only slot for step 1.
    bench.expect(1, 1);
    bench.grant(1, 1);
    CHECK(bench.waiting() == 0);
    bench.dismiss(0);
    CHECK(bench.finish(1).step == 1);
  }

  TEST_CASE("a sample that cannot be loaded reaches the device with its slice, and not before") {
    Bench bench(4);
    DataSource& source = bench.source();
    const auto is_bad = [&](Version step, VirtualRank rank) {
      const store::DataCursor at = source.sampler.cursor(step);
      return source.sampler.sample(at, rank, 0) == kBadSample ||
             source.sampler.sample(at, rank, 1) == kBadSample;
    };
    Version bad_step = 0;
    VirtualRank bad_rank = 0;
    while (!is_bad(bad_step, bad_rank)) {
      bad_step += bad_rank == 3 ? 1 : 0;
      bad_rank = (bad_rank + 1) % 4;
    }
    REQUIRE(bad_step > 0);
    REQUIRE(bad_step < kLast);
    bench.expect(bad_rank, bad_step - 1);
    bench.grant(bad_rank, bad_step - 1);
    CHECK(bench.finish(bad_rank).error.empty());  // It fetches the bad sample ahead.
    CHECK(bench.waiting() == 0);
    bench.grant(bad_rank, bad_step);
    CHECK(bench.finish(bad_rank).error == "record 11 of numbers: damaged");
  }

  TEST_CASE("nothing is fetched ahead beyond the last step") {
    Bench bench(1);
    bench.expect(0, kLast - 1);
    bench.grant(0, kLast - 1);
    bench.expect(0, kLast);
    bench.finish(0);
    bench.expect(1, kLast - 1);
    bench.grant(1, kLast - 1);
    CHECK(bench.finish(1).step == kLast - 1);
  }
}
