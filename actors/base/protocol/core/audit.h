#pragma once
// Audits. In every N-th step a second worker also computes the local step of one EST, and both send
// the digest of their result to the head. The functions here choose the step, the rank and the two
// workers. They are pure and give the same answer on every member and in the head.
// intra_job/audit_book.h compares the digests.
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/base/protocol/core/messages.h"

namespace es::actors::protocol {

struct AuditPlan {
  VirtualRank rank = 0;
  Incarnation owner;    // computes the rank in this step anyway
  Incarnation auditor;  // computes it a second time; equal to `owner` if the job has one member
  bool operator==(const AuditPlan&) const = default;
};

// Returns whether this step is audited. If `every_steps` is 0, no step is.
inline bool is_audited(Version step, std::uint64_t every_steps) {
  return every_steps != 0 && step % every_steps == 0;
}

// Returns the audit of this step, or nullopt. Audits take the ranks in turn. From one turn to the
// next a rank gets another auditor. REQUIRES: `members` cover [0, max_p) without gap, ascending.
inline std::optional<AuditPlan> plan_audit(Version step, std::uint64_t every_steps,
                                           const std::vector<Member>& members) {
  if (!is_audited(step, every_steps) || members.empty()) return std::nullopt;
  const std::uint64_t number = step / every_steps;
  const std::uint32_t max_p = members.back().ranks.end;
  AuditPlan plan;
  plan.rank = static_cast<VirtualRank>(number % max_p);
  std::size_t owner = 0;
  while (!members[owner].ranks.contains(plan.rank)) ++owner;
  const std::size_t others = members.size() - 1;
  const std::size_t next = others == 0 ? 0 : 1 + number / max_p % others;
  plan.owner = members[owner].incarnation;
  plan.auditor = members[(owner + next) % members.size()].incarnation;
  return plan;
}

}  // namespace es::actors::protocol
