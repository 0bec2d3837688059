#include "actors/est/est_actor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <deque>
#include <random>
#include "store/dataset/synthetic_images.h"

#include "actors/data_workers/data_workers_actor.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::actors;

namespace {

constexpr Version kLast = 4;

// An EST with a device that notes what it is asked and data workers that answer when told to.
class Bench {
 public:
  explicit Bench(std::uint32_t slots = 2) : system_(configure(config_)) {
    sched_ = dynamic_cast<caf::scheduler::test_coordinator*>(&system_.scheduler());
    REQUIRE(sched_ != nullptr);
    auto sampler =
        store::EpochSampler::create({.samples = 64, .max_p = 4, .batch_size = 2, .seed = 1});
    auto dataset = store::make_synthetic_images(
        {.shape = {4, 4, 1}, .classes = 2, .train_count = 64, .eval_count = 2});
    REQUIRE(sampler.ok());
    REQUIRE(dataset.ok());
    source_ = std::make_shared<DataSource>(
        DataSource{*std::move(dataset), *sampler, {0, false, 1}, BatchPool(slots, 2 * 16, 2)});
    data_ = system_.spawn(data_workers_actor, source_);
    device_ = system_.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const Msg<wire::RunLocalStep>& m) {
        auto view = m.view();
        asked_.push_back({view->getStep(), view->getRank(), view->getSlot()});
      }};
    });
    for (VirtualRank rank = 0; rank < 4; ++rank)
      ests_.push_back(system_.spawn(est_actor, rank, kLast, device_, data_));
  }
  ~Bench() {
    for (const caf::actor& a : ests_) caf::anon_send_exit(a, caf::exit_reason::kill);
    caf::anon_send_exit(device_, caf::exit_reason::kill);
    caf::anon_send_exit(data_, caf::exit_reason::kill);
    ests_.clear();
    run();
  }

  struct Asked {
    Version step;
    VirtualRank rank;
    std::uint32_t slot;
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
  // What the device says before it waits for a slice.
  void expect(VirtualRank rank, Version step) {
    caf::anon_send(data_, Msg<wire::NextSlice>::build({}, [&](wire::NextSlice::Builder b) {
                     b.setStep(step);
                     b.setRank(rank);
                   }));
    run();
  }
  // The device runs the slice of `rank`, which must have its mini-batch by now.
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
  std::vector<caf::actor> ests_;
  std::deque<Asked> asked_;
};

}  // namespace

TEST_SUITE("actors/est") {
  TEST_CASE("a granted slice runs with the mini-batch of that step and rank") {
    Bench bench;
    bench.expect(2, 3);
    bench.grant(2, 3);
    const Bench::Asked slice = bench.finish(2);
    CHECK(slice.step == 3);
    std::vector<float> images(2 * 16);
    std::vector<std::int32_t> labels(2);
    DataSource& source = bench.source();
    store::fill_batch(source.dataset, source.sampler, source.augmentation, source.sampler.cursor(3),
                      2, images, labels);
    const auto loaded = source.pool.images(slice.slot);
    CHECK(std::equal(images.begin(), images.end(), loaded.begin(), loaded.end()));
  }

  // The ESTs' requests may arrive in any order, and the device runs them in rank order.
  TEST_CASE("four ESTs never block each other, however few slots and in whatever order they ask") {
    std::mt19937_64 random(es::test::seed("est_actor"));
    for (std::uint32_t slots = 1; slots <= 4; ++slots) {
      Bench bench(slots);
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
      "a step that is granted again runs again, although the next mini-batch was on its way") {
    Bench bench(2);
    bench.expect(0, 0);
    bench.grant(0, 0);
    bench.finish(0);  // prefetches step 1
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
    bench.finish(0);  // holds the only slot for step 1 now
    bench.expect(1, 1);
    bench.grant(1, 1);
    CHECK(bench.waiting() == 0);
    bench.dismiss(0);
    CHECK(bench.finish(1).step == 1);
  }

  TEST_CASE("nothing is prefetched beyond the last step") {
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
