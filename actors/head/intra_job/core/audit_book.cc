#include "actors/head/intra_job/core/audit_book.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

using protocol::Audited;
using protocol::AuditPlan;
using protocol::Member;

namespace {

bool agrees_with_itself(const std::vector<Digest>& said) {
  return std::all_of(said.begin(), said.end(), [&](const Digest& d) { return d == said.front(); });
}

}  // namespace

// A device that gave two results for one local step is guilty and has no vote. Of the others those
// are guilty whose result is not that of more than half of the votes. Without such a result nothing
// shows which device is right, so all of them are guilty.
Verdict judge(const Opinions& opinions) {
  Verdict verdict;
  std::vector<Digest> votes;  // one for each device that agrees with itself
  for (const auto& [member, said] : opinions) {
    if (said.empty()) continue;
    if (agrees_with_itself(said)) {
      votes.push_back(said.front());
    } else {
      verdict.guilty.insert(member);
    }
  }
  const auto votes_for = [&](const Digest& digest) {
    return static_cast<std::size_t>(std::count(votes.begin(), votes.end(), digest));
  };
  const auto right = std::find_if(votes.begin(), votes.end(), [&](const Digest& digest) {
    return 2 * votes_for(digest) > votes.size();
  });
  verdict.decided = votes.empty() || right != votes.end();
  for (const auto& [member, said] : opinions)
    if (!said.empty() && (right == votes.end() || said.front() != *right))
      verdict.guilty.insert(member);
  return verdict;
}

void AuditBook::place(std::vector<Member> members) {
  members_ = std::move(members);
  opinions_.clear();
  count_ = 0;
  over_ = asked_ = false;
  step_ = 0;
}

// At first two results are expected, from the owner and from the auditor. After a difference one
// more is expected from every member.
std::size_t AuditBook::expected() const {
  return 2 + (asked_ ? members_.size() : 0);
}

AuditBook::Next AuditBook::add(const Audited& message, Incarnation from) {
  const auto plan = plan_audit(message.step, every_steps_, members_);
  // Such a result belongs to an earlier audit, or to a step or a rank that is not audited in this
  // placement.
  if (!plan || plan->rank != message.rank || message.step < step_) return Next::kWait;
  if (message.step > step_) {
    step_ = message.step;
    opinions_.clear();
    count_ = 0;
    over_ = asked_ = false;
  }
  // Until all members are asked, only the two devices of the plan count, so that expected() is
  // reached exactly when both have reported.
  const bool wanted = asked_ || from == plan->owner || from == plan->auditor;
  if (over_ || !wanted) return Next::kWait;
  opinions_[from].push_back(message.digest);
  if (++count_ < expected()) return Next::kWait;
  if (asked_) {
    over_ = true;
    return Next::kJudged;
  }
  over_ = judge(opinions_).guilty.empty();
  asked_ = !over_;
  return over_ ? Next::kPassed : Next::kAsk;
}

}  // namespace es::actors::intra_job
