#pragma once
// The messages of a trace (proto/schema/trace.capnp) and the values of actors/base/tracing/core.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/tracing/core/span.h"
#include "actors/base/tracing/core/worker_trace.h"
#include "proto/messages.h"

namespace es::actors::tracing {

using FramePtr = std::shared_ptr<const Frame>;

FramePtr encode(const Envelope& envelope, const TracePiece& piece);
// `trace`: its spans are not sent.
FramePtr encode_end(const Envelope& envelope, const Trace& trace);

// Error (usage): the message is malformed, has a number out of range, or more than kSpansOfPart
// spans.
Result<TracePiece> decode_piece(const FramePtr& frame);
Result<Trace> decode_end(const FramePtr& frame);

// Puts the stream of messages that answers TraceJob together.
class TraceAssembly {
 public:
  // Spans beyond `limit` count as dropped.
  explicit TraceAssembly(std::size_t limit) : room_(limit) {}

  // Returns the whole trace with the last message. Error (usage): as above, or another message.
  Result<std::optional<Trace>> add(const FramePtr& frame);

 private:
  std::size_t room_;
  std::map<Incarnation, ProcessTrace> processes_;
  std::map<Incarnation, std::uint64_t> dropped_here_;
};

}  // namespace es::actors::tracing
