#include "scheduler/policy/elastic_srtf/elastic_srtf.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/outlook.h"
#include "scheduler/policy/common/speed.h"
#include "scheduler/policy/common/targets.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kMakespanSlack = 0.03;
constexpr double kClaimSlack = 0.25;  // a projection that is later than this leads to a claim
constexpr int kMovesMax = 4;
constexpr std::size_t kProjectedMax = 128;
constexpr ChoiceLimits kLimits{.efficiency_min = 0.8};

using Served = ElasticSrtf::Served;

// One call of decide().
class Round {
 public:
  // `jobs` is arranged as of the board's time. With `plainly` every job is looked at.
  Round(const Board& board, const ServiceOrder& jobs, ElasticSrtf::Scratch& scratch, bool plainly)
      : board_(board),
        jobs_(jobs),
        again_s_(jobs.again_s()),
        targets_(scratch.targets),
        served_(scratch.served),
        marked_(scratch.marked),
        plainly_(plainly || board.has_quotas()),
        end_(jobs.places().size()),
        paused_(board.types(), 0),
        left_(board.types()) {
    targets_.begin(board);
    for (const std::size_t slot : std::exchange(marked_, {})) served_[slot] = Served::kNot;
    served_.resize(board.rows().size(), Served::kNot);
  }

  Decisions run() {
    project();
    serve_fixed();
    keep_paused();
    if (board_.has_quotas()) serve_owners();
    share_out();
    Decisions decisions = carry_out(board_, targets_, leaving_);
    decisions.again_s = again_s_;
    return decisions;
  }

 private:
  // The order is that of jobs_ up to place `end_`, followed by `moved_`.

  // Changes the order so that all jobs end in time. Jobs that come first by priority, by a deadline
  // or because they are overdue keep their places.
  void project() {
    if (jobs_.widths() <= 1) return;  // no job waits
    const std::size_t count = jobs_.places().size();
    std::size_t fixed = first_movable();
    // Only the last kProjectedMax jobs are projected one by one; the work before them counts as one
    // busy period.
    if (count > kProjectedMax) fixed = std::max(fixed, count - kProjectedMax);
    std::vector<Place> last;
    std::vector<Task> tasks;
    double after_s = 0;
    for_places(fixed, count, [&](const Place& place) {
      last.push_back(place);
      tasks.push_back(jobs_.task_of(place.slot));
      after_s += tasks.back().work_s;
    });
    const double before_s = std::max(0.0, jobs_.backlog_s() - after_s);
    const double horizon_s = jobs_.horizon_s();
    if (surely_in_time(tasks, before_s, (1 + kMakespanSlack) * horizon_s)) return;

    const Order order = meet_deadline(tasks, before_s, (1 + kMakespanSlack) * horizon_s, kMovesMax);
    end_ = fixed;
    for (const std::size_t i : order.tasks) moved_.push_back(last[i]);
    const double latest_s = (1 + kClaimSlack) * horizon_s;
    if (order.done_s > latest_s) {
      claimant_ = order.last;
      claim_ = std::min(1.0, jobs_.alone_s(moved_[claimant_].slot) / latest_s);
    }
  }

  std::size_t first_movable() const {
    const PlaceList& places = jobs_.places();
    if (places.size() == 0) return 0;
    return places.count_before(Place::rank_of(places.back().priority_rank(), Service::kAged));
  }

  // Visits the places `from` to `to` of jobs_ one by one.
  template <class Visit>
  void for_places(std::size_t from, std::size_t to, const Visit& visit) const {
    std::size_t first = 0;
    for (const PlaceList::Block& block : jobs_.places().blocks()) {
      if (first >= to) return;
      const std::size_t begin = std::max(from, first) - first;
      const std::size_t end = std::min(block.places.size(), to - first);
      for (std::size_t i = begin; i < end; ++i) visit(block.places[i]);
      first += block.places.size();
    }
  }

  template <class Visit>
  void for_all(const Visit& visit) const {
    for_places(0, end_, visit);
    for (const Place& place : moved_) visit(place);
  }

  void mark(std::size_t slot, Served served) {
    served_[slot] = served;
    marked_.push_back(slot);
  }

  void serve_fixed() {
    if (jobs_.fixed().empty()) return;
    std::vector<std::size_t> slots(jobs_.fixed().begin(), jobs_.fixed().end());
    std::sort(slots.begin(), slots.end(),
              [&](std::size_t a, std::size_t b) { return jobs_.place_of(a) < jobs_.place_of(b); });
    for (const std::size_t slot : slots) mark(slot, Served::kSome);
    place_fixed(board_, slots, targets_);
  }

  // Lets jobs in a pause keep what they hold, as far as it is left.
  void keep_paused() {
    if (jobs_.paused().empty()) return;
    if (!plainly_ && keep_all_paused()) return;
    plainly_ = true;
    for_places(0, jobs_.places().size(), [&](const Place& place) {
      if (place.paused) keep_paused(place);
    });
  }

  // Lets all paused jobs keep their devices at once. Returns false, without a change, if not all of
  // that is left.
  bool keep_all_paused() {
    std::vector<std::size_t> fixed;
    for (const std::size_t slot : jobs_.fixed())
      if (jobs_.place_of(slot).paused && !jobs_.place_of(slot).pinned) fixed.push_back(slot);
    const Counts& others = jobs_.paused_devices();
    for (std::size_t t = 0; t < left_.size(); ++t) {
      std::uint32_t more = others[t];
      for (const std::size_t slot : fixed) more += board_.held(slot)[t] - targets_.of(slot)[t];
      if (more > targets_.left()[t]) return false;
    }
    for (const std::size_t slot : fixed) keep_paused(jobs_.place_of(slot));
    targets_.take(others);
    for (std::size_t t = 0; t < left_.size(); ++t) paused_[t] += others[t];
    ask_again_at(jobs_.paused().begin()->first);
    return true;
  }

  void ask_again_at(double time_s) {
    again_s_ = std::min(again_s_, std::max(board_.now_s() + 1, time_s));
  }

  void keep_paused(const Place& place) {
    if (place.pinned) return;
    const auto held = board_.held(place.slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > targets_.left()[t] + targets_.of(place.slot)[t]) return;
    targets_.set(place.slot, held);
    mark(place.slot, Served::kKeeps);
    ask_again_at(board_.rows()[place.slot].paused_until_s);
    for (std::size_t t = 0; t < left_.size(); ++t) paused_[t] += held[t];
  }

  // Gives the jobs of every tenant first what the tenant owns.
  void serve_owners() {
    std::vector<Counts> owned;
    for (const Board::Tenant& tenant : board_.tenants()) owned.push_back(tenant.owned);
    for_all([&](const Place& place) {
      const Row& row = board_.rows()[place.slot];
      Counts& rest = owned[row.tenant];
      if (!row.pinned && served_[place.slot] != Served::kKeeps) {
        for (std::size_t t = 0; t < left_.size(); ++t)
          left_[t] = std::min(rest[t], targets_.left()[t] + targets_.of(place.slot)[t]);
        assign(place.slot, best_choice(board_, row, left_, kLimits));
      }
      const auto has = targets_.of(place.slot);
      for (std::size_t t = 0; t < left_.size(); ++t) rest[t] -= std::min(rest[t], has[t]);
    });
  }

  void share_out() {
    const std::size_t claims_at = claim_ > 0 ? first_movable() : end_;
    std::size_t first = 0;
    for (const PlaceList::Block& block : jobs_.places().blocks()) {
      const std::size_t after = first + block.places.size();
      if (first >= end_) break;
      const bool is_whole = after <= end_ && (claims_at <= first || claims_at >= after);
      if (first == claims_at) serve_claim();
      if (plainly_ || !is_whole || !pass(block))
        for (std::size_t i = 0; i < block.places.size() && first + i < end_; ++i) {
          if (i > 0 && first + i == claims_at) serve_claim();
          serve_in_turn(block.places[i]);
        }
      first = after;
    }
    if (claims_at == end_) serve_claim();
    for (const Place& place : moved_) serve_in_turn(place);
  }

  // Whether all jobs of the block surely keep what they hold, if anything. If so, their devices are
  // taken from what is left, and the block is passed as a whole.
  bool pass(const PlaceList::Block& block) {
    if (all_given()) return block.losers == 0;
    if ((block.wakes & types_left()) != 0) return false;
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (block.in_turn[t] > targets_.left()[t]) return false;
    targets_.take(block.in_turn);
    return true;
  }

  std::uint64_t types_left() const {
    std::uint64_t bits = 0;
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (targets_.left()[t] > 0) bits |= type_bit(t);
    return bits;
  }

  bool all_given() const {
    for (const std::uint32_t n : targets_.left())
      if (n > 0) return false;
    return true;
  }

  // Serves the claim with that useful number of devices which is nearest to the claimed part. A
  // number between two useful ones would not be faster than the smaller one.
  void serve_claim() {
    if (claim_ <= 0 || all_given()) return;
    const std::size_t slot = moved_[claimant_].slot;
    const Row& row = board_.rows()[slot];
    if (row.pinned || keeps(moved_[claimant_])) return;
    const double wanted = claim_ * row.max_devices;
    const std::uint32_t less =
        useful_devices(row.max_p, std::max(1U, static_cast<std::uint32_t>(wanted)));
    std::uint32_t more = less + 1;
    while (more < row.max_devices && useful_devices(row.max_p, more) < more) ++more;
    Row part = row;
    part.max_devices = std::max(row.min_devices, wanted < less + 0.6 * (more - less) ? less : more);
    part.max_devices = std::min(part.max_devices, row.max_devices);
    offer(slot);
    assign(slot, best_choice(board_, part, left_, kLimits));
  }

  // Whether it was decided before the job's turn that it keeps what it holds.
  bool keeps(const Place& place) const {
    return served_[place.slot] == Served::kKeeps || (!plainly_ && place.paused && !place.pinned);
  }

  // Serves one job. A job that holds devices and may have to give up all of them is added to
  // leaving_; another job whose target may differ from what it holds is ranked.
  void serve_in_turn(const Place& place) {
    if (!place.pinned && !keeps(place) && !all_given()) serve(place);
    if (place.pinned || keeps(place)) return;
    if (served_[place.slot] == Served::kSome) targets_.rank(place.slot);
    if (place.holds) leaving_.push_back(place.slot);
  }

  void serve(const Place& place) {
    const bool is_new = served_[place.slot] == Served::kNot;
    if (is_new && place.best_off && targets_.keep(board_, place.slot))
      return mark(place.slot, Served::kKeeps);
    if (is_new && !plainly_ && (place.wakes & types_left()) == 0) {
      if (!place.holds) return;
      if (targets_.keep(board_, place.slot)) return mark(place.slot, Served::kKeeps);
    }
    const Row& row = board_.rows()[place.slot];
    if (is_new && surely_keeps(board_, row, targets_.left())) {
      targets_.keep(board_, place.slot);
      return mark(place.slot, Served::kKeeps);
    }
    offer(place.slot);
    if (surely_nothing(board_, row, left_)) return wait_for_pauses(row);
    if (is_best_off(place)) return give(place.slot, board_.held(place.slot));
    const Choice choice = best_choice(board_, row, left_, kLimits);
    if (choice.counts.empty()) return wait_for_pauses(row);
    assign(place.slot, choice);
  }

  // A job that needs many devices at once reserves those that are left until pauses are over.
  // Otherwise some job would always be in a pause, and the wide job would never start.
  void wait_for_pauses(const Row& row) {
    for (std::size_t t = 0; t < left_.size(); ++t) left_[t] += paused_[t];
    if (surely_nothing(board_, row, left_)) return;
    const Choice later = best_choice(board_, row, left_, kLimits);
    if (!later.counts.empty()) targets_.reserve(later.counts);
  }

  // Whether nothing is faster than what the job holds, and it can keep that.
  bool is_best_off(const Place& place) const {
    if (!place.best_off) return false;
    const auto held = board_.held(place.slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > left_[t]) return false;
    return true;
  }

  // What the job may choose from: the devices that are left, and those that it was already given.
  void offer(std::size_t slot) {
    for (std::size_t t = 0; t < left_.size(); ++t)
      left_[t] = targets_.left()[t] + targets_.of(slot)[t];
  }

  void assign(std::size_t slot, const Choice& choice) {
    if (!choice.counts.empty()) give(slot, choice.counts);
  }

  void give(std::size_t slot, std::span<const std::uint32_t> counts) {
    targets_.set(slot, counts);
    mark(slot, Served::kSome);
  }

  const Board& board_;
  const ServiceOrder& jobs_;
  double again_s_;
  Targets& targets_;
  std::vector<Served>& served_;       // by slot
  std::vector<std::size_t>& marked_;  // slots that may have been served
  bool plainly_;
  std::size_t end_;
  std::vector<Place> moved_;
  std::size_t claimant_ = 0;  // index in moved_
  double claim_ = 0;          // part of its devices that is claimed; 0 for no claim
  Counts paused_;             // devices of jobs in a pause
  Counts left_;               // temporary
  std::vector<std::size_t> leaving_;
};

}  // namespace

ElasticSrtf::ElasticSrtf(double fairness, Pass pass)
    : jobs_(1 + 0.05 * std::pow(400.0, 1 - fairness)), pass_(pass) {}

Decisions ElasticSrtf::decide(const ClusterView& view) {
  board_.update(view);
  jobs_.update(board_);
  if (!board_.has_quotas())
    if (auto decisions = serve_everybody(board_)) return std::move(*decisions);
  jobs_.arrange(board_);
  return Round(board_, jobs_, scratch_, pass_ == Pass::kAll).run();
}

}  // namespace es::scheduler
