#include "scheduler/policy/rivals/themis.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scheduler/policy/common/speed.h"
#include "scheduler/policy/rivals/configurations.h"

namespace es::scheduler {
namespace {

constexpr double kLeaseS = 1200;
constexpr std::size_t kBidPercent = 20;  // 1 - f
constexpr std::size_t kBiddersMost = 32;
// Value of nothing in parts of the smallest value of something.
constexpr double kNothing = 0.01;

// The jobs of one priority, in one decision.
class Auction {
 public:
  Auction(const ClusterTable& table, Rounds& rounds) : table_(table), rounds_(rounds) {}

  void add(const JobRow& row) {
    Bid bid{&row, options_of(table_, row), {}, rho(row, row.held_speed)};
    if (bid.options.empty()) return;
    double least = 0;
    for (const Option& option : bid.options) {
      const double value = 1 / rho(row, option.speed);
      least = least == 0 ? value : std::min(least, value);
      bid.values.push_back(value);
    }
    for (double& value : bid.values) value = std::log(value / (least * kNothing));
    if (row.held_total == 0) bid.rho = 1 / (least * kNothing);
    jobs_.push_back(std::move(bid));
  }

  void run() {
    std::sort(jobs_.begin(), jobs_.end(), [](const Bid& a, const Bid& b) {
      return std::tie(b.rho, a.row->number) < std::tie(a.rho, b.row->number);
    });
    bidders_ = std::min(
        {jobs_.size(), kBiddersMost, std::max<std::size_t>(1, jobs_.size() * kBidPercent / 100)});
    sell();
    give_leftovers();
  }

 private:
  struct Bid {
    const JobRow* row;
    std::vector<Option> options;
    std::vector<double> values;  // log (V / V of nothing), > 0
    double rho;                  // with what it holds now
    bool has_won = false;
  };

  double rho(const JobRow& row, double speed) const {
    const double age_s = std::max(0.0, table_.now_s() - row.submit_s);
    const double remaining = std::max(1.0, table_.remaining(row));
    const double isolated_s =
        (table_.done(row) + remaining) / std::max(1e-12, table_.fair_speed(row));
    return (age_s + remaining / std::max(1e-12, speed)) / isolated_s;
  }

  // The largest sum of log V of the bidders without this one, if it does not bid (`one`), and what
  // each of them would get.
  std::vector<Counts> allocate(std::size_t one) const {
    std::vector<AssignmentGroup> groups;
    for (std::size_t i = 0; i < bidders_; ++i) {
      AssignmentGroup group{.jobs = i == one ? 0U : 1U, .configurations = {}};
      for (std::size_t k = 0; k < jobs_[i].options.size(); ++k)
        group.configurations.push_back(
            {jobs_[i].options[k].type, jobs_[i].options[k].devices, jobs_[i].values[k]});
      groups.push_back(std::move(group));
    }
    return assign_configurations(groups, offer_);
  }

  double value_without(const std::vector<Counts>& x, std::size_t one) const {
    double sum = 0;
    for (std::size_t i = 0; i < bidders_; ++i)
      for (std::size_t k = 0; k < x[i].size(); ++k)
        if (i != one) sum += x[i][k] * jobs_[i].values[k];
    return sum;
  }

  void sell() {
    offer_ = rounds_.left();
    for (std::size_t i = 0; i < bidders_; ++i)
      for (std::size_t t = 0; t < table_.types(); ++t)
        offer_[t] += rounds_.left_for(*jobs_[i].row, t) - rounds_.left()[t];
    const std::vector<Counts> won = allocate(bidders_);
    for (std::size_t i = 0; i < bidders_; ++i)
      for (std::size_t k = 0; k < won[i].size(); ++k) {
        if (won[i][k] == 0) continue;
        const Option& option = jobs_[i].options[k];
        const double part =
            std::exp(std::min(0.0, value_without(won, i) - value_without(allocate(i), i)));
        take(jobs_[i], option, paid(*jobs_[i].row, option.devices, part));
      }
  }

  // What the bidder keeps of the devices that it won.
  std::uint32_t paid(const JobRow& row, std::uint32_t devices, double part) const {
    // The search is exact to 0.01 %, so a payment of less than that is none.
    constexpr double kRounding = 1e-3;
    const auto kept = static_cast<std::uint32_t>(std::floor(devices * part * (1 + kRounding)));
    const std::uint32_t useful = kept == 0 ? 0 : useful_devices(row.max_p, kept);
    return std::clamp(useful, std::min(row.min_devices, devices), devices);
  }

  void take(Bid& bid, const Option& option, std::uint32_t devices) {
    Counts counts(table_.types(), 0);
    counts[option.type] = devices;
    const bool allowed =
        devices == option.devices || table_.fall_back_of(bid.row->slot, counts) == nullptr;
    if (!allowed) counts[option.type] = option.devices;
    if (rounds_.give(*bid.row, counts)) bid.has_won = true;
  }

  void give_leftovers() {
    serve_losers();
    // What no other job can use goes back to those that have paid it.
    for (Bid& bid : jobs_)
      if (bid.has_won && rounds_.is_anything_left()) take_most(bid);
    // They may have moved to another type, and left this one to others.
    serve_losers();
  }

  void serve_losers() {
    for (Bid& bid : jobs_)
      if (!bid.has_won && rounds_.is_anything_left()) take_most(bid);
  }

  // The fastest option that is left.
  void take_most(Bid& bid) {
    const Option* best = fastest_left(*bid.row, bid.options, rounds_);
    if (best != nullptr) take(bid, *best, best->devices);
  }

  const ClusterTable& table_;
  Rounds& rounds_;
  std::vector<Bid> jobs_;    // the largest rho first
  std::size_t bidders_ = 0;  // the first ones of them
  Counts offer_;
};

}  // namespace

Decisions ThemisPolicy::decide(const ClusterView& view) {
  table_.update(view);
  const std::vector<std::size_t> order = by_priority(table_);
  Rounds rounds(table_, kLeaseS, order);
  for (std::size_t first = 0; first < order.size() && rounds.is_anything_left();) {
    Auction auction(table_, rounds);
    const int priority = table_.rows()[order[first]].priority;
    for (; first < order.size() && table_.rows()[order[first]].priority == priority; ++first)
      if (rounds.can_give(table_.rows()[order[first]])) auction.add(table_.rows()[order[first]]);
    auction.run();
  }
  return rounds.finish();
}

}  // namespace es::scheduler
