// WorkerCore: the sums of gradients that are made here, and the ways of parts to where they are
// added. Each member makes the whole sums of the buckets that it owns, and between hosts also
// partial sums on the way to other owners (sum_routes.h).
#include <utility>

#include "actors/worker/core/worker_core.h"

namespace es::actors::worker {

using namespace protocol;

// At level D0 the order is that of the workers: a part is all ranks of its sender, and the owner
// adds all of them.
void WorkerCore::plan_routes() {
  std::vector<SumMember> members;
  PartialSum chain{.ranks = {0, config_.max_p}, .at = 0, .parts = {}};
  for (const Member& member : install_.members) {
    members.push_back({member.ranks, member.host_id});
    chain.parts.push_back({member.ranks, place_of(member)});
  }
  const SumRoutes routes(members, config_.max_p);
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket) {
    const std::uint32_t owner = place_of(owner_of(bucket));
    if (routes_.contains(owner)) continue;
    chain.at = owner;
    routes_.emplace(owner, config_.sum_per_worker ? std::vector{chain} : routes.to(owner));
  }
}

const std::vector<PartialSum>& WorkerCore::sums_of(std::uint32_t bucket) const {
  return routes_.at(place_of(owner_of(bucket)));
}

// The sum of which this is a part that the sender has; nullptr if there is none.
const PartialSum* WorkerCore::sum_with(const Contrib& contrib, Incarnation sender) const {
  for (const PartialSum& sum : sums_of(contrib.bucket))
    for (const PartialSum::Part& part : sum.parts)
      if (part.ranks == contrib.ranks && install_.members[part.at].incarnation == sender)
        return &sum;
  return nullptr;
}

// The peers whose parts of sums that are made here have not come. REQUIRES: the own part is done.
std::set<Incarnation> WorkerCore::missing_senders(std::uint32_t bucket) const {
  std::set<Incarnation> peers;
  for (const PartialSum& sum : sums_of(bucket)) {
    if (install_.members[sum.at].incarnation != config_.self) continue;
    const auto counted = sums_.find({bucket, sum.ranks});
    for (const PartialSum::Part& part : sum.parts)
      if (counted == sums_.end() || !counted->second.has(part.ranks))
        peers.insert(install_.members[part.at].incarnation);
  }
  return peers;
}

// A part of this worker goes to where it is added.
void WorkerCore::pass_on(Contrib contrib) {
  const PartialSum* sum = sum_with(contrib, config_.self);
  ES_CHECK(sum != nullptr);
  const Member& to = install_.members[sum->at];
  if (to.incarnation == config_.self) {
    count(contrib);
  } else {
    send_peer(to, std::move(contrib));
  }
}

// REQUIRES: well_formed(contrib), or it is a part of this worker.
void WorkerCore::count(const Contrib& contrib) {
  const PartialSum& of = *sum_with(contrib, contrib.stamp.sender);
  BucketSum& sum = sums_.try_emplace({contrib.bucket, of.ranks}, of.ranks).first->second;
  switch (sum.add(contrib)) {
    case BucketSum::Added::kDuplicate:
      return;
    case BucketSum::Added::kOverlap:
      // The sum would have wrong bits, so the process ends.
      abort("a rank would be summed twice: ranks " + std::to_string(contrib.ranks.begin) + " to " +
            std::to_string(contrib.ranks.end) + " of bucket " + std::to_string(contrib.bucket) +
            ", step " + std::to_string(contrib.step) + ", from worker " +
            std::to_string(contrib.stamp.sender.value));
      return;
    case BucketSum::Added::kCounted:
      break;
  }
  last_progress_ = now_;
  // The reduction begins when the last rank has arrived. The parts are then summed in the order of
  // the tree, whatever the order of their arrival.
  if (sum.complete()) {
    effects_.push_back(ReduceBucket{.generation = generation_,
                                    .step = contrib.step,
                                    .bucket = contrib.bucket,
                                    .ranks = of.ranks,
                                    .is_partial = &of != &sums_of(contrib.bucket).back(),
                                    .parts = sum.parts()});
  }
}

void WorkerCore::on_part_summed(const PartSummed& event) {
  if (!is_of_this_step(event.part)) return;
  last_progress_ = now_;
  held_up_ = false;
  own_ranks_summed_[event.part.bucket] += event.part.ranks.size();
  if (own_part_is_done()) own_part_ = now_ - step_begin_;
  Contrib contrib = event.part;
  contrib.stamp = stamp();
  // The wish to drain travels with bucket 0, so the owner of that bucket collects the wishes of all
  // members.
  contrib.drain = contrib.bucket == 0 && drain_wanted_;
  pass_on(std::move(contrib));
}

// A worker that waits for others can be told by a time limit that one of them does not come.
void WorkerCore::on_steps_held_up(const StepsHeldUp& event) {
  const bool is_now = event.generation == generation_ && phase_ == Phase::kActive &&
                      event.step == version_ && !own_part_is_done();
  if (!is_now) return;
  held_up_ = true;
  own_part_ = now_ - step_begin_;
}

void WorkerCore::on_partial_sum_made(const PartialSumMade& event) {
  if (!is_of_this_step(event.part)) return;
  const BucketSum& sum = sums_.at({event.part.bucket, event.part.ranks});
  Contrib contrib = event.part;
  contrib.stamp = stamp();
  if (contrib.bucket == 0) contrib.results = sum.results();
  contrib.drain = sum.drain();
  pass_on(std::move(contrib));
}

}  // namespace es::actors::worker
