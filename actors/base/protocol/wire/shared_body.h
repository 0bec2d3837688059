#pragma once
// One answer for several receivers: frames that share the words of one body and have different
// heads.
#include <kj/array.h>

#include <memory>
#include <utility>

#include "proto/frame.h"

namespace es::actors {

// Returns a frame with the body of `frame` under `head`, whose type is set here. Nothing is copied.
// The words live as long as one of the frames. Thread-safe, because frames are immutable.
inline std::shared_ptr<const Frame> with_envelope(std::shared_ptr<const Frame> frame,
                                                  Envelope envelope) {
  envelope.type = frame->envelope.type;
  // A Frame contains an Array of mutable words, but nothing ever writes to a Frame.
  const kj::ArrayPtr<capnp::word> words(const_cast<capnp::word*>(frame->body.begin()),
                                        frame->body.size());
  return std::make_shared<const Frame>(Frame{std::move(envelope), words.attach(std::move(frame))});
}

}  // namespace es::actors
