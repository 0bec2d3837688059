#pragma once
// One answer for many: frames that share the words of a body, each under a head of its own.
#include <kj/array.h>

#include <memory>
#include <utility>

#include "proto/frame.h"

namespace es::actors {

// The body of `frame` under `head`, whose type is set here. Nothing is copied; the words live as
// long as one of the frames does. Thread-safe, since frames are immutable.
inline std::shared_ptr<const Frame> with_head(std::shared_ptr<const Frame> frame, Head head) {
  head.type = frame->head.type;
  // An Array of words that can be written, because a Frame has one; nobody writes to a Frame.
  const kj::ArrayPtr<capnp::word> words(const_cast<capnp::word*>(frame->body.begin()),
                                        frame->body.size());
  return std::make_shared<const Frame>(Frame{std::move(head), words.attach(std::move(frame))});
}

}  // namespace es::actors
