#pragma once
// Between the plain structs of the step protocol (messages.h) and frames. Decoding validates what
// can be validated without state: lengths, ranges, known alternatives.
#include <memory>

#include "actors/protocol/messages.h"
#include "proto/frame.h"

namespace es::actors::protocol {

using FramePtr = std::shared_ptr<const Frame>;

FramePtr encode(const JobId& job, const PeerMessage& message);
FramePtr encode(const JobId& job, const WorkerMessage& message);
FramePtr encode(const JobId& job, const HeadMessage& message);

bool is_peer_message(MessageType type);
bool is_worker_message(MessageType type);
bool is_head_message(MessageType type);

// Error (usage): malformed, or not one of this direction's types.
Result<PeerMessage> decode_peer(const FramePtr& frame);
Result<WorkerMessage> decode_worker(const FramePtr& frame);
Result<HeadMessage> decode_head(const FramePtr& frame);

}  // namespace es::actors::protocol
