#pragma once
// Msg<T> is one immutable Cap'n Proto message of the schema struct T, with its envelope.
//
// A message is built once and then shared. Copying a Msg copies a pointer. Inside a process every
// receiver reads the same words; between processes these words are the frame, so no message is
// encoded twice.
//
//   auto msg = Msg<wire::Prepare>::build(envelope, [&](wire::Prepare::Builder b) { ... });
//   auto view = msg.view();            // cheap; one per use, never shared between threads
//   view->getFoo();
//
// Thread safety: threads may share a Msg, because it is immutable. They must not share a View.
// Limits: a received frame is refused if its body is larger than kBodyBytesMax. Cap'n Proto checks
// the bounds of each pointer when it is read, and a View throws kj::Exception (a std::exception) on
// malformed content. So messages from other processes are read inside decode().
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <concepts>
#include <memory>
#include <utility>

#include "proto/base/result.h"
#include "proto/frame.h"
#include "proto/message_type.h"

namespace es {

// The type number of a schema struct; specialised in proto/messages.h.
template <class Schema>
struct MessageTypeOf;

template <class Schema>
class Msg {
 public:
  static constexpr MessageType kType = MessageTypeOf<Schema>::value;

  Msg() = default;

  // Fills a new message and sets envelope.type. `fill` gets a Schema::Builder. It should set each
  // pointer field once, because setting it again wastes space in the message.
  template <std::invocable<typename Schema::Builder> Fill>
  static Msg build(Envelope envelope, Fill&& fill) {
    capnp::word scratch[kScratchWords] = {};  // Cap'n Proto requires zeroed space
    capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kScratchWords));
    fill(builder.initRoot<Schema>());
    envelope.type = kType;
    return Msg(std::make_shared<const Frame>(
        Frame{std::move(envelope), capnp::messageToFlatArray(builder)}));
  }

  // Wraps a received frame. Error (usage): the frame is of another type.
  static Result<Msg> from_frame(std::shared_ptr<const Frame> frame) {
    if (frame->envelope.type != kType)
      return usage_error("message type " + std::to_string(static_cast<int>(frame->envelope.type)) +
                         ": expected " + std::to_string(static_cast<int>(kType)));
    return Msg(std::move(frame));
  }

  const Envelope& envelope() const { return frame_->envelope; }
  const std::shared_ptr<const Frame>& frame() const { return frame_; }

  class View {
   public:
    explicit View(std::shared_ptr<const Frame> frame)
        : frame_(std::move(frame)),
          reader_(frame_->body.asPtr(), reader_options(*frame_)),
          root_(reader_.template getRoot<Schema>()) {}
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    typename Schema::Reader* operator->() { return &root_; }
    typename Schema::Reader& operator*() { return root_; }

   private:
    std::shared_ptr<const Frame> frame_;
    capnp::FlatArrayMessageReader reader_;
    typename Schema::Reader root_;
  };

  // REQUIRES: the message was built here or received. Throws on malformed content.
  View view() const { return View(frame_); }

  // Runs `read` on the content and returns its result. Malformed content becomes an Error (usage).
  // This is the way to read a message that came from another process.
  template <class Read>
  auto decode(Read&& read) const -> Result<std::invoke_result_t<Read, typename Schema::Reader>> {
    try {
      View v(frame_);
      return read(*v);
    } catch (const std::exception& e) {
      return usage_error("malformed message of type " + std::to_string(static_cast<int>(kType)) +
                         ": " + first_line(e.what()));
    }
  }

  bool operator==(const Msg& other) const { return frame_ == other.frame_; }

 private:
  static constexpr std::size_t kScratchWords = 128;
  explicit Msg(std::shared_ptr<const Frame> frame) : frame_(std::move(frame)) {}

  std::shared_ptr<const Frame> frame_;
};

}  // namespace es
