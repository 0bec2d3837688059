#pragma once
// Frame: one message in its wire form, an envelope and the words of the body. The Gateway moves
// frames without knowing what they mean; Msg<T> (proto/msg.h) gives them a type.
#include <capnp/common.h>
#include <capnp/message.h>
#include <kj/array.h>

#include <cstddef>
#include <memory>
#include <string>

#include "proto/base/result.h"
#include "proto/message_type.h"

namespace es {

// Largest body that is sent or accepted. Bulk data goes over the data plane; the largest control
// message carries one gradient bucket inline when two workers share no memory.
inline constexpr std::size_t kBodyBytesMax = std::size_t{64} << 20;
// Largest envelope that is accepted.
inline constexpr std::size_t kEnvelopeBytesMax = 4096;

struct Frame {
  Head head;
  kj::Array<capnp::word> body;

  std::size_t body_bytes() const { return body.asBytes().size(); }
};

// The bytes of an envelope, to be sent before the body.
std::string encode_head(const Head& head);

// Reads a received envelope and body (copied: the bytes need no alignment).
// Error (usage): too large, empty, not a whole number of words, unreadable, another protocol
// version, or an unknown type. The error's text is for a log; the peer is not answered.
Result<std::shared_ptr<const Frame>> decode_frame(const void* envelope, std::size_t envelope_bytes,
                                                  const void* body, std::size_t body_bytes);

// Reading limits for a frame's body: every word may be visited a bounded number of times.
capnp::ReaderOptions reader_options(const Frame& frame);

// kj's exception texts carry a stack trace; a log line wants only the first line.
std::string first_line(const char* text);

}  // namespace es
