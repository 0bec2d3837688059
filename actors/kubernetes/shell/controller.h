#pragma once
// The controller: brings the objects of one EasyScaleCluster, and its jobs at the head, to what the
// objects of its namespace say. It consists of actors, and keeps nothing that another controller
// would need:
//
//   WatchActor (3)  ->  JobsActor, ClusterActor, HeadActor   what the objects say
//   LeaseActor      ->  the same                             whether this controller acts
//   HeadActor       ->  JobsActor, ClusterActor              what the head says
//   JobsActor      <->  HeadActor                            requests about jobs
#include <caf/actor_system.hpp>

#include <functional>

#include "actors/kubernetes/shell/head_link.h"
#include "actors/kubernetes/shell/shell_parts.h"

namespace es::actors::kubernetes {

// Works until `wait_for_stop` returns, and gives the Lease back then. `connect` and its links are
// used on the thread of an actor, and should not wait for the head any more by then. Watches go on
// afterwards, so the process has to end (actors/base/program/actor_process.h).
void run_controller(caf::actor_system& system, const ControllerOptions& options,
                    const ConnectHead& connect, const std::function<void()>& wait_for_stop);

}  // namespace es::actors::kubernetes
