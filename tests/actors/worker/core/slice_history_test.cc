// Random histories of the three cores that bring mini-batches to a device: SliceQueue, EstCore and
// BatchQueue. Each actor has a mailbox, as in a worker process, and which actor handles its next
// message is chosen at random.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "actors/worker/core/slice_queue.h"
#include "actors/worker/data_workers/core/batch_queue.h"
#include "actors/worker/est/core/est_core.h"
#include "tests/support/seed.h"

namespace es::actors::worker {
namespace {

constexpr Version kLast = 6;
constexpr int kRoundsMax = 5;

class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed),
        max_p_(static_cast<VirtualRank>(1 + pick(8))),
        loaders_(static_cast<std::uint32_t>(1 + pick(3))),
        slots_(static_cast<std::uint32_t>(1 + pick(5))),
        data_(slots_, loaders_),
        content_(slots_) {
    for (VirtualRank rank = 0; rank < max_p_; ++rank) ests_.emplace_back(kLast);
    begin_generation();
  }

  // Runs until the job has reached its last version.
  void run() {
    int messages = 0;
    while (version_ < kLast) {
      if (rounds_ < kRoundsMax && pick(60) == 0) begin_generation();
      handle_one();
      REQUIRE_MESSAGE(++messages < 100000, "the histories end after some thousand messages");
    }
  }
  int slices_run() const { return slices_run_; }

 private:
  using Mailbox = std::deque<std::function<void()>>;
  struct Batch {
    Version step = 0;
    VirtualRank rank = 0;
    bool operator==(const Batch&) const = default;
  };

  std::size_t pick(std::size_t below) { return random_() % below; }

  // An actor that has something to do handles one message. A running slice and a running fill end
  // at any time.
  void handle_one() {
    std::vector<std::function<void()>> possible;
    if (running_)
      possible.emplace_back([this] { end_slice(); });
    else if (!device_mail_.empty())
      possible.emplace_back([this] { handle(device_mail_); });
    for (Mailbox* const mailbox : {&data_mail_, &control_mail_})
      if (!mailbox->empty()) possible.emplace_back([this, mailbox] { handle(*mailbox); });
    for (auto& [rank, mailbox] : est_mail_)
      if (!mailbox.empty()) possible.emplace_back([this, &mailbox] { handle(mailbox); });
    if (!fills_.empty()) possible.emplace_back([this] { end_fill(); });
    REQUIRE_MESSAGE(!possible.empty(), "no actor can continue, but the step is not over");
    possible[pick(possible.size())]();
  }
  void handle(Mailbox& mailbox) {
    const auto message = std::move(mailbox.front());
    mailbox.pop_front();
    message();
  }

  // --- The control half: a new placement, at an older version now and then.
  void begin_generation() {
    ++rounds_;
    below_ = Generation{++generation_};  // the device sees this number at once
    const Version step = version_ - std::min<Version>(version_, pick(2));
    version_ = step;
    const auto begin = static_cast<VirtualRank>(pick(max_p_));
    const RankRange ranks{begin, begin + 1 + static_cast<VirtualRank>(pick(max_p_ - begin))};
    device_mail_.emplace_back([this] { abandon(); });
    device_mail_.emplace_back([this, ranks, step, mine = below_] { start(mine, step, ranks); });
  }
  void step_done(Generation generation, Version step, RankRange ranks) {
    if (generation < below_) return;
    version_ = step + 1;
    if (version_ == kLast) return;
    device_mail_.emplace_back([=, this] { start(generation, step + 1, ranks); });
  }

  // --- The device half.
  void abandon() {
    perform(queue_.abandon());
    CHECK(at_device_.empty());
    for (VirtualRank rank = 0; rank < max_p_; ++rank)
      est_mail_[rank].emplace_back([this, rank] { perform(rank, ests_[rank].dismissed()); });
  }
  void start(Generation generation, Version step, RankRange ranks) {
    if (generation < below_) return;
    CHECK(at_device_.empty());
    step_generation_ = generation;
    step_ = step;
    ranks_ = ranks;
    next_rank_ = ranks.begin;
    computed_ = Instant();
    perform(queue_.begin(generation, step, ranks));
  }
  void end_slice() {
    const RunSlice run = *std::exchange(running_, std::nullopt);
    CHECK(content_[run.slice.slot] == Batch{run.slice.step, run.slice.rank});
    computed_ += std::chrono::milliseconds(1 + pick(4));
    ++next_rank_;
    ++slices_run_;
    if (next_rank_ == ranks_.end)
      control_mail_.emplace_back([this, generation = step_generation_, step = step_,
                                  ranks = ranks_] { step_done(generation, step, ranks); });
    perform(queue_.finished(computed_, below_));
  }
  void perform(const SliceDecision& decision) {
    for (const SliceEffect& effect : decision.effects)
      std::visit([this](const auto& e) { perform_effect(e); }, effect);
    if (decision.run) begin_slice(*decision.run);
  }
  void perform_effect(const GrantSlices& e) {
    for (VirtualRank rank = e.ranks.begin; rank < e.ranks.end; ++rank)
      est_mail_[rank].emplace_back(
          [this, rank, e] { perform(rank, ests_[rank].granted(e.generation, e.step)); });
  }
  void perform_effect(const EndSlice& e) {
    const auto at = at_device_.find(e.slot);
    REQUIRE(at != at_device_.end());  // each slice is ended once
    CHECK(at->second == Batch{e.step, e.rank});
    at_device_.erase(at);
    est_mail_[e.rank].emplace_back([this, e] { perform(e.rank, {ReturnSlot{e.slot}}); });
  }
  void perform_effect(const AnnounceSlice& e) {
    data_mail_.emplace_back([this, e] { perform(data_.next_slice(e.step, e.rank)); });
  }
  void perform_effect(const YieldToMailbox&) {
    device_mail_.emplace_back([this] { perform(queue_.resume(below_)); });
  }
  void begin_slice(const RunSlice& e) {
    REQUIRE(!running_);
    CHECK(e.slice.generation == step_generation_);
    CHECK(e.slice.generation >= below_);  // nothing of an abandoned generation begins
    CHECK(e.slice.step == step_);
    CHECK(e.slice.rank == next_rank_);  // once for each rank, in the canonical order
    CHECK(content_[e.slice.slot] == Batch{e.slice.step, e.slice.rank});
    if (e.following) {
      CHECK(e.following->rank == next_rank_ + 1);
      CHECK(content_[e.following->slot] == Batch{step_, next_rank_ + 1});
    }
    running_ = e;
  }
  void perform_effect(const StayIdle& e) { CHECK(e.step_is_over == (next_rank_ == ranks_.end)); }

  // --- The ESTs.
  void perform(VirtualRank rank, const EstEffects& effects) {
    for (const EstEffect& effect : effects)
      std::visit([this, rank](const auto& e) { perform_effect(rank, e); }, effect);
  }
  void perform_effect(VirtualRank rank, const RequestBatch& e) {
    data_mail_.emplace_back([this, rank, e] { perform(data_.request(e.step, rank)); });
  }
  void perform_effect(VirtualRank, const ReturnSlot& e) {
    data_mail_.emplace_back([this, e] {
      CHECK(used_.erase(e.slot) == 1);
      perform(data_.slot_free(e.slot));
    });
  }
  void perform_effect(VirtualRank rank, const OfferSlice& e) {
    device_mail_.emplace_back([this, rank, e] {
      CHECK(at_device_.emplace(e.batch.slot, Batch{e.batch.step, rank}).second);
      perform(queue_.add(
          {.generation = e.generation, .step = e.batch.step, .rank = rank, .slot = e.batch.slot},
          below_));
    });
  }

  // --- The data workers and their loaders.
  void perform(const std::vector<Fill>& fills) {
    for (const Fill& fill : fills) {
      CHECK(used_.insert(fill.slot).second);  // a slot has one user at a time
      content_[fill.slot] = {};
      fills_.push_back(fill);
    }
  }
  void end_fill() {
    const auto at = fills_.begin() + static_cast<std::ptrdiff_t>(pick(fills_.size()));
    const Fill fill = *at;
    fills_.erase(at);
    content_[fill.slot] = {fill.step, fill.rank};
    data_mail_.emplace_back([this, fill] {
      est_mail_[fill.rank].emplace_back([this, fill] {
        perform(fill.rank, ests_[fill.rank].loaded({fill.step, fill.slot}));
      });
      perform(data_.loader_free());
    });
  }

  std::mt19937_64 random_;
  const VirtualRank max_p_;
  const std::uint32_t loaders_, slots_;
  SliceQueue queue_;
  BatchQueue data_;
  std::vector<EstCore> ests_;
  Mailbox device_mail_, data_mail_, control_mail_;
  std::map<VirtualRank, Mailbox> est_mail_;
  std::vector<Fill> fills_;  // that loaders work on

  // The control half.
  int rounds_ = 0;
  std::uint64_t generation_ = 0;
  Generation below_;
  Version version_ = 0;

  // The device half.
  Generation step_generation_;
  Version step_ = 0;
  RankRange ranks_;
  VirtualRank next_rank_ = 0;
  Instant computed_{};
  std::optional<RunSlice> running_;
  int slices_run_ = 0;

  std::map<std::uint32_t, Batch> at_device_;  // by slot: slices that are not ended yet
  std::vector<Batch> content_;                // of each slot
  std::set<std::uint32_t> used_;              // slots that are not free
};

TEST_SUITE("actors/worker/slice_history") {
  TEST_CASE(
      "every EST runs once in each step and in rank order, however messages are interleaved") {
    const std::uint64_t seed = test::seed("slice histories");
    int slices_run = 0;
    for (std::uint64_t history = 0; history < 400; ++history) {
      CAPTURE(history);
      World world(seed + history);
      world.run();
      slices_run += world.slices_run();
    }
    CHECK(slices_run > 400 * static_cast<int>(kLast));
  }
}

}  // namespace
}  // namespace es::actors::worker
