#pragma once
// Audits: in every N-th step one EST's local step is computed by a second worker too, and both tell
// the head the digest of what they got. Which step, which rank and who: pure functions, the same on
// every member and in the head. What follows from the digests: intra_job/audit_book.h.
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/protocol/messages.h"

namespace es::actors::protocol {

struct AuditPlan {
  VirtualRank rank = 0;
  Incarnation owner;    // runs the rank in this step anyway
  Incarnation auditor;  // computes it a second time; the owner itself when it is the only member
  bool operator==(const AuditPlan&) const = default;
};

// Whether this step is audited. `every_steps` 0: none is.
inline bool is_audited(Version step, std::uint64_t every_steps) {
  return every_steps != 0 && step % every_steps == 0;
}

// The audit of this step, or none. Audits take the ranks in turn, and from one turn to the next
// another member is the auditor of a rank. REQUIRES: `members` cover [0, max_p) without gap.
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
