#include "actors/base/access/core/requests.h"

#include <algorithm>

#include "proto/base/check.h"
#include "proto/base/text.h"

namespace es::actors::access {
namespace {

constexpr RequestKind kKinds[] = {
    {MessageType::kListJobs, "ListJobs", Role::kView, false},
    {MessageType::kListNodes, "ListNodes", Role::kView, false},
    {MessageType::kDescribeJob, "DescribeJob", Role::kView, true},
    {MessageType::kFollowJob, "FollowJob", Role::kView, true},
    {MessageType::kReadLedger, "ReadLedger", Role::kView, true},
    {MessageType::kListPlans, "ListPlans", Role::kView, true},
    {MessageType::kReadWorkerLog, "ReadWorkerLog", Role::kView, true},
    {MessageType::kSubmitJob, "SubmitJob", Role::kSubmit, false},
    // A trace can make the steps of a job slower.
    {MessageType::kTraceJob, "TraceJob", Role::kSubmit, true},
    {MessageType::kScaleJob, "ScaleJob", Role::kSubmit, true},
    {MessageType::kCheckpointJob, "CheckpointJob", Role::kSubmit, true},
    {MessageType::kCancelJob, "CancelJob", Role::kSubmit, true},
    {MessageType::kRemoveJob, "RemoveJob", Role::kSubmit, true},
    {MessageType::kBudgetJob, "BudgetJob", Role::kSubmit, true},
    {MessageType::kPauseJob, "PauseJob", Role::kSubmit, true},
    {MessageType::kResumeJob, "ResumeJob", Role::kSubmit, true},
    {MessageType::kClearDevice, "ClearDevice", Role::kOperate, false},
    {MessageType::kClaimDevices, "ClaimDevices", Role::kOperate, false},
    {MessageType::kReserveDevices, "ReserveDevices", Role::kOperate, false},
    {MessageType::kVacateNode, "VacateNode", Role::kOperate, false},
    {MessageType::kReleaseClaim, "ReleaseClaim", Role::kOperate, false},
    {MessageType::kShutdown, "Shutdown", Role::kAdmin, false},
};

}  // namespace

std::span<const RequestKind> request_kinds() {
  return kKinds;
}

const RequestKind* request_kind(MessageType type) {
  const auto* at =
      std::ranges::find_if(kKinds, [&](const RequestKind& kind) { return kind.type == type; });
  return at == std::end(kKinds) ? nullptr : at;
}

Status check_request(const Identity& who, MessageType type) {
  const RequestKind* kind = request_kind(type);
  ES_CHECK(kind != nullptr);
  if (who.may(kind->role)) return {};
  return refused(std::string("needs the role ") + role_name(kind->role) + "; " + who.name +
                 " has the role " + role_name(who.role));
}

Status check_message(const KeyOwner& sender, MessageType type) {
  if (request_kind(type) == nullptr) {
    if (sender.node) return {};
    return refused("the key of " + sender.name + " is no key of a node");
  }
  if (!sender.client)
    return refused("the key of the node " + sender.name +
                   " cannot act as a client; `esctl keygen --client` makes a key that can");
  return check_request(*sender.client, type);
}

Error no_such_job(const JobId& named) {
  return not_found("job \"" + escaped(named) + "\": there is no such job (see esctl ps)");
}

Status check_job(const Identity& who, const JobId& named, const std::string& tenant_of_job) {
  if (who.may_see(tenant_of_job)) return {};
  return no_such_job(named);
}

Result<std::string> tenant_for(const Identity& who, const std::string& asked) {
  if (who.tenant.empty()) return asked;
  if (!asked.empty() && asked != who.tenant)
    return refused("resources.tenant = \"" + asked + "\": " + who.name +
                   " submits for the tenant " + who.tenant + " only");
  return who.tenant;
}

}  // namespace es::actors::access
