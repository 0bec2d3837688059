#pragma once
// The frame of a process that has actors, and its end.
//
// CAF cannot shut down its actor system while anything still uses it, such as a thread outside of
// CAF that sends to an actor, or an actor that waits in the queue of a scheduler. Therefore the
// actor system of a process is never shut down: the process ends around it when `body` has
// returned. By then every other thread that sends to actors has been joined, because `body` owned
// it. On every path this includes the gateway (gateway_actor.h).
#include <caf/actor_system.hpp>

#include <cstddef>
#include <functional>

#include "proto/base/result.h"

namespace es::actors {

// Runs `body` with an actor system of `threads` threads and then ends the process: with exit code
// 0, or with the error's exit code after its message was logged. If output could not be written, or
// if an exception leaves `body`, the process ends as run_program (actors/base/program/program.h)
// describes, under `name`. Actors may use the caller's frame, because the function never returns.
// Call it on the main thread, once in a process.
[[noreturn]] void run_actor_process(const char* name, std::size_t threads,
                                    const std::function<Status(caf::actor_system&)>& body);

}  // namespace es::actors
