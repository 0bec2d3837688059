#pragma once
// What the head of a job with sharded state decides about shards: which two members hold the
// moments of each bucket, and from which version a round can continue. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "proto/base/ids.h"

namespace es::actors::intra_job {

// From where the members of a round get the target version.
struct ShardSources {
  Version target = 0;
  Incarnation rest;                    // a worker that has committed the target or is ahead to it
  std::vector<Incarnation> by_bucket;  // workers that hold the shard, or the sum that makes it
  // The first bucket that no worker can supply: there is no whole version any more.
  std::optional<std::uint32_t> lost;
};

// Returns from where the newest version comes; nullopt: no worker holds one. The target is that of
// the members that are furthest: once one of them is ahead, the sums of the step were held twice,
// and no member goes back. Deterministic.
std::optional<ShardSources> find_shards(const std::map<Incarnation, protocol::Report>& reports,
                                        std::uint32_t buckets);

struct ShardMember {
  Incarnation incarnation;
  std::string node;  // the failure domain
};

// Returns owner and buddy of each bucket. `floats` are the sizes of the buckets. `have` says which
// members hold each bucket now; they keep it where the division allows it, so little moves. The two
// are on different nodes where there is more than one node. If that is possible for any two
// members, or for none, the loads of two members differ by a bucket and a tenth of an even share at
// most. Deterministic. REQUIRES: there are members, in the order of their ranks.
std::vector<protocol::Holders> assign_shards(const std::vector<std::uint64_t>& floats,
                                             const std::vector<ShardMember>& members,
                                             const std::vector<std::set<Incarnation>>& have);

}  // namespace es::actors::intra_job
