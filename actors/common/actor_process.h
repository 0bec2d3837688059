#pragma once
// A process that has actors, and its end.
//
// CAF cannot end its actor system while anything still uses it: a thread of ours that sends to an
// actor, or an actor that waits in a scheduler's queue. So the system of a process never ends; the
// process ends around it, when `body` has returned. By then whoever sends from a thread of its own
// is joined, because `body` owned it: the gateway (gateway_actor.h) on every path.
#include <caf/actor_system.hpp>

#include <cstddef>
#include <functional>

#include "proto/base/result.h"

namespace es::actors {

// Runs `body` with an actor system of so many threads and ends the process after it: exit code 0,
// or the error's message on stderr and its exit code. Output that could not be written and an
// exception that leaves `body` end the process as run_program (actors/config/program.h) says, under
// `name`. What actors use of the caller's frame stays valid, since it is never left. Call it on the
// main thread, once in a process.
[[noreturn]] void run_actor_process(const char* name, std::size_t threads,
                                    const std::function<Status(caf::actor_system&)>& body);

}  // namespace es::actors
