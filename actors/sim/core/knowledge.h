#pragma once
// KnowledgePolicy: a policy that is shown what a head would know in life, which is less than the
// simulation knows. It stands between the head and the policy, and changes only the lengths and the
// speeds of jobs in the view. What a job has done, and how fast it is now, is always known.
//
//   estimate_error   The length of a job and each of its C_i are multiplied by e^x, where x has a
//                    normal distribution with this standard deviation. One draw for each job, and
//                    for each pair of job and type.
//   unknown_lengths  Jobs stop early, at a part of the length that their owner allowed which is
//                    equally distributed between 0.2 and 1. The policy knows the allowed length.
//   lying_users      This part of the jobs is submitted with a tenth of its length.
//
// A job that has done more than its supposed length is supposed to need a tenth of that more.
//
// Pure: the draws depend on the seed and the submit number of a job only, and are the same on every
// machine. As fast as the policy, beside a copy of the jobs that changed.
#include <memory>

#include "scheduler/policy/common/policy.h"

namespace es::actors::simulator {

struct Knowledge {
  double estimate_error = 0;  // >= 0
  bool unknown_lengths = false;
  double lying_users = 0;  // 0 to 1
  std::uint64_t seed = 0;

  bool is_perfect() const { return estimate_error == 0 && !unknown_lengths && lying_users == 0; }
};

// What the policy knows about the job.
scheduler::JobView known_part(const scheduler::JobView& job, const Knowledge& knowledge);

class KnowledgePolicy final : public scheduler::Policy {
 public:
  KnowledgePolicy(std::unique_ptr<scheduler::Policy> policy, const Knowledge& knowledge)
      : policy_(std::move(policy)), knowledge_(knowledge) {}
  scheduler::Decisions decide(const scheduler::ClusterView& view) override;
  scheduler::StartsWith starts_with() const override { return policy_->starts_with(); }

 private:
  const std::unique_ptr<scheduler::Policy> policy_;
  const Knowledge knowledge_;
  scheduler::ClusterView known_;
};

}  // namespace es::actors::simulator
