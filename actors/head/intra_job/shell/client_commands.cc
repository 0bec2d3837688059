#include "actors/head/intra_job/shell/client_commands.h"

#include <filesystem>
#include <string>
#include <utility>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

Result<ClientCommand> scale_of(const Inbound& inbound) {
  const auto text = visit<wire::ScaleJob>(
      inbound, [](wire::ScaleJob::Reader r) { return name_of(r.getDevices(), "devices"); });
  if (!text) return text.error();
  intra_job::ScaleCommand command;
  // An empty text gives the choice back to the policy (`esctl scale auto`).
  if (!text->empty()) {
    auto devices = parse_device_set(*text);
    if (!devices) return devices.error();
    command.devices = *std::move(devices);
  }
  return ClientCommand(std::move(command));
}

Result<ClientCommand> checkpoint_of(const Inbound& inbound) {
  auto command = visit<wire::CheckpointJob>(inbound, [](wire::CheckpointJob::Reader r) {
    return intra_job::CheckpointCommand{0, name_of(r.getDirectory(), "directory"), r.getAtEnd(),
                                        name_of(r.getOtherwise(), "otherwise")};
  });
  if (!command) return command.error();
  // The worker that writes would find an existing directory too, but only at the end of the step.
  // It may be on another disk, so this check does not replace that one.
  std::error_code ignored;
  if (std::filesystem::exists(command->directory, ignored))
    return refused(command->directory + " exists: allowed is a new directory");
  return ClientCommand(*std::move(command));
}

Result<ClientCommand> resume_of(const Inbound& inbound) {
  const auto accept_loss =
      visit<wire::ResumeJob>(inbound, [](wire::ResumeJob::Reader r) { return r.getAcceptLoss(); });
  if (!accept_loss) return accept_loss.error();
  return ClientCommand(intra_job::ResumeCommand{0, *accept_loss});
}

Result<ClientCommand> budget_of(const Inbound& inbound) {
  const auto budget =
      visit<wire::BudgetJob>(inbound, [](wire::BudgetJob::Reader r) { return r.getBudget(); });
  if (!budget) return budget.error();
  if (!(*budget >= 0 && *budget <= kBudgetMax))
    return usage_error("budget: allowed is a number from 0 to 1e12; 0 for no budget");
  return ClientCommand(intra_job::BudgetCommand{0, *budget});
}

}  // namespace

bool is_command(MessageType type) {
  return type == MessageType::kScaleJob || type == MessageType::kCheckpointJob ||
         type == MessageType::kPauseJob || type == MessageType::kResumeJob ||
         type == MessageType::kBudgetJob || type == MessageType::kCancelJob;
}

Result<ClientCommand> command_of(const Inbound& inbound) {
  const MessageType type = inbound.frame->envelope.type;
  if (type == MessageType::kScaleJob) return scale_of(inbound);
  if (type == MessageType::kCheckpointJob) return checkpoint_of(inbound);
  if (type == MessageType::kResumeJob) return resume_of(inbound);
  if (type == MessageType::kBudgetJob) return budget_of(inbound);
  if (type == MessageType::kPauseJob) return ClientCommand(intra_job::PauseCommand{});
  ES_CHECK(type == MessageType::kCancelJob);
  return ClientCommand(intra_job::CancelCommand{});
}

}  // namespace es::actors
