#pragma once
// A policy whose decisions are checked for devices that are idle beside jobs that wait for them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/common/waits.h"

namespace es::test {

class WatchedPolicy final : public scheduler::Policy {
 public:
  // Violations are appended to `broken`, which has to outlive the policy.
  WatchedPolicy(std::unique_ptr<scheduler::Policy> policy, std::vector<std::string>& broken)
      : policy_(std::move(policy)), broken_(broken) {}
  scheduler::Decisions decide(const scheduler::ClusterView& view) override {
    scheduler::Decisions decided = policy_->decide(view);
    const Status status = scheduler::check_idle(view, decided, policy_->starts_with());
    if (!status.ok()) broken_.push_back(status.error().message);
    return decided;
  }
  bool expects_sync() const override { return policy_->expects_sync(); }
  scheduler::StartsWith starts_with() const override { return policy_->starts_with(); }

 private:
  const std::unique_ptr<scheduler::Policy> policy_;
  std::vector<std::string>& broken_;
};

}  // namespace es::test
