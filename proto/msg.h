#pragma once
// Msg<T>: one immutable Cap'n Proto message of schema struct T with its envelope.
//
// Built once, then shared: copying a Msg copies a pointer, inside a process every receiver reads
// the same words, and across processes those words are the frame (nothing is encoded twice).
//
//   auto msg = Msg<wire::Prepare>::build(head, [&](wire::Prepare::Builder b) { ... });
//   auto view = msg.view();            // cheap; one per use, never shared between threads
//   view->getFoo();
//
// Thread safety: a Msg is immutable and may be shared between threads; a View may not.
// Limits: a frame that arrives is refused when it is larger than kBodyBytesMax or is not a valid
// message of type T (every pointer of it is checked while it is decoded by the reader's bounds).
// A View throws kj::Exception (a std::exception) on malformed content: decode inside decode().
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <concepts>
#include <memory>
#include <utility>

#include "proto/base/result.h"
#include "proto/frame.h"
#include "proto/message_type.h"

namespace es {

// The type tag that belongs to a schema struct; specialised in proto/messages.h.
template <class Schema>
struct MessageTypeOf;

template <class Schema>
class Msg {
 public:
  static constexpr MessageType kType = MessageTypeOf<Schema>::value;

  Msg() = default;

  // Fills a new message. head.type is set here. `fill` gets a Schema::Builder; set each pointer
  // field once (setting it again wastes space in the message).
  template <std::invocable<typename Schema::Builder> Fill>
  static Msg build(Head head, Fill&& fill) {
    capnp::word scratch[kScratchWords] = {};  // must be zeroed
    capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kScratchWords));
    fill(builder.initRoot<Schema>());
    head.type = kType;
    return Msg(
        std::make_shared<const Frame>(Frame{std::move(head), capnp::messageToFlatArray(builder)}));
  }

  // Takes a received frame. Error: the frame is of another type.
  static Result<Msg> from_frame(std::shared_ptr<const Frame> frame) {
    if (frame->head.type != kType)
      return usage_error("message type " + std::to_string(static_cast<int>(frame->head.type)) +
                         ": expected " + std::to_string(static_cast<int>(kType)));
    return Msg(std::move(frame));
  }

  const Head& head() const { return frame_->head; }
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

  // REQUIRES: the message was built here or received; throws on malformed content.
  View view() const { return View(frame_); }

  // Runs `read` on the content and returns what it returns; malformed content becomes an Error that
  // says so. This is the way to read a message that came from another process.
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
