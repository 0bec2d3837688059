#pragma once
// visit<Message>() reads a message that has arrived: it gives the content of an Inbound to a
// function. An actor tells the types apart by envelope.type and then visits.
//
//   const Status read = visit<wire::KillWorker>(
//       inbound, [&](wire::KillWorker::Reader r) { kill({r.getIncarnation()}); });
//
// Returns what the function returns, as a Result; a Status if it returns nothing. Error (usage):
// the message is of another type, and the function was not called; or its content is malformed, and
// what the function has done before it read the malformed part is done. A function that must do all
// or nothing therefore reads everything first, or returns it.
//
// Threads: any. The Reader is valid during the call only.
#include <concepts>
#include <type_traits>
#include <utility>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "proto/msg.h"

namespace es::actors {

template <class Message, std::invocable<typename Message::Reader> F>
auto visit(const Inbound& inbound, F&& f) {
  using Reader = typename Message::Reader;
  using Value = std::invoke_result_t<F, Reader>;
  const auto message = Msg<Message>::from_frame(inbound.frame);
  if constexpr (std::is_void_v<Value>) {
    if (!message) return Status(message.error());
    const auto read = message->decode([&](Reader r) {
      f(r);
      return true;
    });
    return read ? Status() : Status(read.error());
  } else {
    return message ? message->decode(std::forward<F>(f)) : Result<Value>(message.error());
  }
}

}  // namespace es::actors
