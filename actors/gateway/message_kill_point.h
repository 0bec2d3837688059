#pragma once
// Kill points (proto/base/kill_point.h) at the messages of the step protocol, the nodes and the
// clients, all at the one place that every message between processes passes:
//   send.TYPE  before it goes out       sent.TYPE  it has gone out, and nothing after it does
//   got.TYPE   it has come in, nobody has seen it
// TYPE is the name of the message in its schema, e.g. send.Prepare.
#include "proto/base/kill_point.h"
#include "proto/message_type.h"

namespace es::actors {

// Empty for a message that has no points.
std::string_view kill_point_name(MessageType type);

void reach_message_kill_point(std::string_view moment, MessageType type, bool after);

inline void message_kill_point(std::string_view moment, MessageType type) {
  if (kill_points_armed()) reach_message_kill_point(moment, type, false);
}

inline void message_kill_point_after(std::string_view moment, MessageType type) {
  if (kill_points_armed()) reach_message_kill_point(moment, type, true);
}

}  // namespace es::actors
