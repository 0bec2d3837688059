#pragma once
// A Frame is one message in its wire form: an envelope and the words of the body. The gateway moves
// frames without knowing their content; Msg<T> (proto/msg.h) gives them a type.
#include <capnp/common.h>
#include <capnp/message.h>
#include <kj/array.h>

#include <cstddef>
#include <memory>
#include <string>

#include "proto/base/result.h"
#include "proto/message_type.h"

namespace es {

// Largest body in bytes that is sent or accepted. Bulk data normally uses the data plane. The
// largest control message contains one gradient bucket, for two workers that share no memory.
inline constexpr std::size_t kBodyBytesMax = std::size_t{64} << 20;
// Largest envelope in bytes that is accepted.
inline constexpr std::size_t kEnvelopeBytesMax = 4096;

struct Frame {
  Envelope envelope;
  kj::Array<capnp::word> body;

  std::size_t body_bytes() const { return body.asBytes().size(); }
};

// Returns the bytes of an envelope, which are sent before the body.
std::string encode_envelope(const Envelope& envelope);

// Reads a received envelope and body. The bytes are copied, so they need no alignment. Error
// (usage): the envelope or the body is too large, is empty or is not a whole number of words; the
// envelope is unreadable; the protocol version is another one; or the type is unknown. The text of
// the error is for a log; the sender gets no answer.
Result<std::shared_ptr<const Frame>> decode_frame(const void* envelope, std::size_t envelope_bytes,
                                                  const void* body, std::size_t body_bytes);

// Limits for reading a frame's body. Each word may be visited a bounded number of times.
capnp::ReaderOptions reader_options(const Frame& frame);

// Returns the first line of a text. A text of a kj exception contains a stack trace, but a log line
// needs only its first line.
std::string first_line(const char* text);

}  // namespace es
