#pragma once
// Conversion between the plain structs of the step protocol (messages.h) and frames. Decoding
// checks everything that can be checked without state: lengths, ranges, known alternatives.
#include <memory>

#include "actors/base/protocol/core/messages.h"
#include "proto/frame.h"

namespace es::actors::protocol {

using FramePtr = std::shared_ptr<const Frame>;

FramePtr encode(const JobId& job, const PeerMessage& message);
FramePtr encode(const JobId& job, const WorkerMessage& message);
FramePtr encode(const JobId& job, const HeadMessage& message);

bool is_peer_message(MessageType type);
bool is_worker_message(MessageType type);
bool is_head_message(MessageType type);

// Error (usage): the frame is malformed, or its type does not belong to this direction.
Result<PeerMessage> decode_peer(const FramePtr& frame);
Result<WorkerMessage> decode_worker(const FramePtr& frame);
Result<HeadMessage> decode_head(const FramePtr& frame);

}  // namespace es::actors::protocol
