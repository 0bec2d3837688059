#include "actors/head/intra_job/core/shards.h"

#include <algorithm>
#include <numeric>

#include "proto/base/check.h"

namespace es::actors::intra_job {

using protocol::Holders;
using protocol::Report;

namespace {

using Reports = std::map<Incarnation, Report>;

bool contains(const std::vector<std::uint32_t>& ascending, std::uint32_t bucket) {
  return std::ranges::binary_search(ascending, bucket);
}

// The version of the shards that a worker holds.
std::optional<Version> reached(const Report& report) {
  if (!report.version) return std::nullopt;
  return *report.version + (report.ahead ? 1 : 0);
}

std::optional<Version> newest(const Reports& reports) {
  std::optional<Version> target;
  for (const auto& [incarnation, report] : reports) target = std::max(target, reached(report));
  return target;
}

// Whether the worker has the shard of the target, or will have made it before another worker reads
// it.
bool can_supply(const Report& report, std::uint32_t bucket, Version target) {
  if (reached(report) == target) return contains(report.held, bucket);
  return report.version && *report.version + 1 == target && contains(report.summed, bucket);
}

// Returns the holder of the bucket that supplies the fewest buckets so far.
std::optional<Incarnation> supplier(const Reports& reports, std::uint32_t bucket, Version target,
                                    std::map<Incarnation, std::size_t>& supplied) {
  std::optional<Incarnation> best;
  for (const auto& [incarnation, report] : reports)
    if (can_supply(report, bucket, target) && (!best || supplied[incarnation] < supplied[*best]))
      best = incarnation;
  if (best) ++supplied[*best];
  return best;
}

// Gives buckets to members one role after the other.
class Division {
 public:
  Division(const std::vector<std::uint64_t>& floats, const std::vector<ShardMember>& members,
           const std::vector<std::set<Incarnation>>& have)
      : floats_(floats), members_(members), have_(have), load_(members.size()) {
    const auto total = std::accumulate(floats.begin(), floats.end(), std::uint64_t{0});
    slack_ = 2 * total / members.size() / 10;
  }

  std::vector<Holders> make() {
    std::vector<Holders> holders(floats_.size());
    for (const std::uint32_t bucket : by_size()) {
      const std::size_t owner = take(bucket, members_.size());
      const std::size_t buddy = members_.size() == 1 ? owner : take(bucket, owner);
      holders[bucket] = {members_[owner].incarnation, members_[buddy].incarnation};
    }
    return holders;
  }

 private:
  // Large buckets first, so that the small ones even out the loads.
  std::vector<std::uint32_t> by_size() const {
    std::vector<std::uint32_t> order(floats_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, std::greater(), [this](std::uint32_t b) { return floats_[b]; });
    return order;
  }

  // A member that has the bucket keeps it unless others have much less.
  bool keeps(std::size_t member, std::uint32_t bucket) const {
    return have_[bucket].contains(members_[member].incarnation) &&
           load_[member] <= *std::ranges::min_element(load_) + slack_;
  }

  // `other`: the member with the other role of this bucket; members_.size(): there is none yet.
  std::size_t take(std::uint32_t bucket, std::size_t other) {
    const auto apart = [&](std::size_t m) {
      return other == members_.size() || members_[m].node != members_[other].node;
    };
    std::size_t best = members_.size();
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (m == other) continue;
      const auto rank = [&](std::size_t x) {
        return std::tuple(!apart(x), !keeps(x, bucket), load_[x]);
      };
      if (best == members_.size() || rank(m) < rank(best)) best = m;
    }
    load_[best] += floats_[bucket];
    return best;
  }

  const std::vector<std::uint64_t>& floats_;
  const std::vector<ShardMember>& members_;
  const std::vector<std::set<Incarnation>>& have_;
  std::vector<std::uint64_t> load_;  // by member, floats of both roles
  std::uint64_t slack_ = 0;          // a tenth of an even share
};

}  // namespace

std::optional<ShardSources> find_shards(const Reports& reports, std::uint32_t buckets) {
  const std::optional<Version> target = newest(reports);
  if (!target) return std::nullopt;
  ShardSources found{.target = *target, .rest = {}, .by_bucket = {}, .lost = {}};
  found.rest = std::ranges::find_if(reports, [&](const auto& entry) {
                 return reached(entry.second) == target;
               })->first;
  std::map<Incarnation, std::size_t> supplied;
  for (std::uint32_t bucket = 0; bucket < buckets && !found.lost; ++bucket) {
    if (const auto from = supplier(reports, bucket, *target, supplied))
      found.by_bucket.push_back(*from);
    else
      found.lost = bucket;
  }
  return found;
}

std::vector<Holders> assign_shards(const std::vector<std::uint64_t>& floats,
                                   const std::vector<ShardMember>& members,
                                   const std::vector<std::set<Incarnation>>& have) {
  ES_CHECK(!floats.empty() && !members.empty() && have.size() == floats.size());
  return Division(floats, members, have).make();
}

}  // namespace es::actors::intra_job
