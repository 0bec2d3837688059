#pragma once
// Client commands: the requests of clients that change a job, from a message to the event of the
// job's core. Thread-safe.
#include <variant>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/intra_job/core/job_events.h"
#include "proto/message_type.h"

namespace es::actors {

using ClientCommand =
    std::variant<intra_job::ScaleCommand, intra_job::CheckpointCommand, intra_job::PauseCommand,
                 intra_job::ResumeCommand, intra_job::BudgetCommand, intra_job::CancelCommand>;

// Whether the request changes journaled state: whether command_of() knows it.
bool is_command(MessageType type);

// Returns the command, whose `request` is not set yet. Looks at the disk whether the directory of a
// CheckpointJob exists. REQUIRES: is_command(). Error (usage, refused): text for the client.
Result<ClientCommand> command_of(const Inbound& inbound);

}  // namespace es::actors
