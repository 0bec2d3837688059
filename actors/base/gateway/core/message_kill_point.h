#pragma once
// Kill points (proto/base/kill_point.h) for the messages of the step protocol, of nodes and of
// clients. They are in the gateway, because every message between processes passes it:
//   send.TYPE  before the message is sent
//   sent.TYPE  after the message has been sent and before any later one
//   got.TYPE   the message has arrived, and no actor has seen it
// TYPE is the name of the message in its schema, for example send.Prepare.
#include "proto/base/kill_point.h"
#include "proto/message_type.h"

namespace es::actors {

// Empty for a message that has no kill points.
std::string_view kill_point_name(MessageType type);

void reach_message_kill_point(std::string_view moment, MessageType type, bool after);

inline void message_kill_point(std::string_view moment, MessageType type) {
  if (kill_points_armed()) reach_message_kill_point(moment, type, false);
}

inline void message_kill_point_after(std::string_view moment, MessageType type) {
  if (kill_points_armed()) reach_message_kill_point(moment, type, true);
}

}  // namespace es::actors
