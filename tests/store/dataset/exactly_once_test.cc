// Each sample of an epoch is used once, for any history of the workers: the sampler with random
// resizes, losses that repeat a step, and resumes. tests/sim checks the same with the real head and
// workers in virtual time.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "store/dataset/epoch_sampler.h"
#include "tests/support/seed.h"

namespace es::store {
namespace {

using Samples = std::vector<std::uint64_t>;

// Workers with contiguous ranks. A step is committed when all ranks have read their batches. If a
// worker is lost before that, the whole step is lost.
class Job {
 public:
  Job(EpochSampler sampler, std::uint64_t seed) : sampler_(std::move(sampler)), random_(seed) {
    resize();
  }

  void resize() {
    const std::uint32_t max_p = sampler_.max_p();
    bounds_ = {0, max_p};
    for (std::uint64_t cuts = random_() % max_p; cuts > 0; --cuts)
      bounds_.push_back(static_cast<std::uint32_t>(random_() % max_p));
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  }

  // Workers run in any order and read batch by batch.
  void step(bool lost) {
    std::vector<std::size_t> order;
    for (std::size_t w = 0; w + 1 < bounds_.size(); ++w) order.push_back(w);
    std::shuffle(order.begin(), order.end(), random_);
    if (lost) order.resize(random_() % order.size());
    std::map<VirtualRank, Samples> read;
    for (const std::size_t w : order)
      for (VirtualRank rank = bounds_[w]; rank < bounds_[w + 1]; ++rank) {
        read[rank].resize(sampler_.batch_size());
        sampler_.batch(sampler_.cursor(version_), rank, read[rank]);
      }
    if (lost) return;
    used_[version_].clear();
    for (const auto& [rank, samples] : read)
      used_[version_].insert(used_[version_].end(), samples.begin(), samples.end());
    ++version_;
  }

  void save() { saved_ = version_; }
  // All workers are lost: the steps since the checkpoint are computed again.
  void resume() {
    version_ = saved_;
    resize();
  }

  std::uint64_t version() const { return version_; }
  // The samples of the step that made version + 1, by virtual rank.
  const Samples& used(std::uint64_t version) const { return used_.at(version); }

 private:
  EpochSampler sampler_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> bounds_;  // Worker w has the ranks [bounds[w], bounds[w + 1]).
  std::uint64_t version_ = 0, saved_ = 0;
  std::map<std::uint64_t, Samples> used_;
};

TEST_SUITE("store/dataset/exactly_once") {
  TEST_CASE("1000 random resizes, losses and resumes: each epoch is the data set in its order") {
    const std::uint64_t base = test::seed("exactly once");
    std::mt19937_64 random(base);
    int disturbances = 0;
    for (std::uint64_t round = 0; disturbances < 1000 || round < 20; ++round) {
      const auto max_p = static_cast<std::uint32_t>(1 + random() % 8);
      const auto batch_size = static_cast<std::uint32_t>(1 + random() % 5);
      const std::uint64_t global_batch = std::uint64_t{max_p} * batch_size;
      // Every second data set is a whole number of global batches, so nothing is dropped.
      const std::uint64_t rest = round % 2 == 0 ? 0 : random() % global_batch;
      const std::uint64_t samples = global_batch * (3 + random() % 10) + rest;
      const EpochSampler sampler =
          EpochSampler::create(
              {.samples = samples, .max_p = max_p, .batch_size = batch_size, .seed = random()})
              .value();
      Job job(sampler, random());
      constexpr std::uint64_t kEpochs = 3;
      while (job.version() < kEpochs * sampler.steps_per_epoch()) {
        const std::uint64_t event = random() % 8;
        if (event == 0) job.resize();
        if (event == 1) job.resume();
        if (event == 2) job.save();
        job.step(event == 3);
        disturbances += event == 0 || event == 1 || event == 3;
      }
      for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
        Samples used;
        for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
          const Samples& of_step = job.used(epoch * sampler.steps_per_epoch() + step);
          used.insert(used.end(), of_step.begin(), of_step.end());
        }
        REQUIRE(used.size() == samples - rest);
        for (std::size_t i = 0; i < used.size(); ++i)
          REQUIRE(used[i] == sampler.permuted(epoch, i));
        std::sort(used.begin(), used.end());
        REQUIRE(std::adjacent_find(used.begin(), used.end()) == used.end());
        REQUIRE(used.back() < samples);
      }
    }
  }
}

}  // namespace
}  // namespace es::store
