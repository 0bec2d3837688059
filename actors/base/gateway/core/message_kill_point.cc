// Kill points of messages: a test can end the process when it sends or receives a message of one of
// these types. Other types have no point.
#include "actors/base/gateway/core/message_kill_point.h"

#include <string>

namespace es::actors {

std::string_view kill_point_name(MessageType type) {
  switch (type) {
    case MessageType::kContrib:
      return "Contrib";
    case MessageType::kReduced:
      return "Reduced";
    case MessageType::kFetch:
      return "Fetch";
    case MessageType::kState:
      return "State";
    case MessageType::kComplete:
      return "Complete";
    case MessageType::kUpdated:
      return "Updated";
    case MessageType::kFetchShards:
      return "FetchShards";
    case MessageType::kShards:
      return "Shards";
    case MessageType::kFetchPart:
      return "FetchPart";
    case MessageType::kBulkPart:
      return "BulkPart";
    case MessageType::kOpenChannel:
      return "OpenChannel";
    case MessageType::kHello:
      return "Hello";
    case MessageType::kPrepare:
      return "Prepare";
    case MessageType::kReport:
      return "Report";
    case MessageType::kInstall:
      return "Install";
    case MessageType::kReady:
      return "Ready";
    case MessageType::kGo:
      return "Go";
    case MessageType::kRelease:
      return "Release";
    case MessageType::kDrain:
      return "Drain";
    case MessageType::kDrained:
      return "Drained";
    case MessageType::kCommitted:
      return "Committed";
    case MessageType::kWriteCheckpoint:
      return "WriteCheckpoint";
    case MessageType::kCheckpointWritten:
      return "CheckpointWritten";
    case MessageType::kStartWorker:
      return "StartWorker";
    case MessageType::kWorkerExited:
      return "WorkerExited";
    case MessageType::kNodeHello:
      return "NodeHello";
    case MessageType::kSubmitJob:
      return "SubmitJob";
    case MessageType::kJobAccepted:
      return "JobAccepted";
    default:
      return {};
  }
}

void reach_message_kill_point(std::string_view moment, MessageType type, bool after) {
  const std::string_view message = kill_point_name(type);
  if (message.empty()) return;
  const std::string name = std::string(moment) + "." + std::string(message);
  if (after) {
    kill_point_after(name);
  } else {
    kill_point(name);
  }
}

}  // namespace es::actors
