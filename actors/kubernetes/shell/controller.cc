#include "actors/kubernetes/shell/controller.h"

#include "actors/kubernetes/shell/cluster_actor.h"
#include "actors/kubernetes/shell/head_actor.h"
#include "actors/kubernetes/shell/jobs_actor.h"
#include "actors/kubernetes/shell/lease_actor.h"
#include "actors/kubernetes/shell/watch_actor.h"

namespace es::actors::kubernetes {

void run_controller(caf::actor_system& system, const ControllerOptions& options,
                    const ConnectHead& connect, const std::function<void()>& wait_for_stop) {
  log::info("the controller of the cluster " + options.cluster + " in the namespace " +
            options.place.name_space + " begins as " + options.identity);
  const auto jobs = system.spawn<caf::detached>(jobs_actor, options);
  const auto cluster = system.spawn<caf::detached>(cluster_actor, options);
  const auto head = system.spawn<caf::detached>(head_actor, options, connect,
                                                std::vector<caf::actor>{jobs, cluster});
  const auto watch = [&](ObjectKind kind, std::string path, std::string selector,
                         std::vector<caf::actor> listeners) {
    system.spawn<caf::detached>(
        watch_actor, WatchOptions{options.place, kind, std::move(path), std::move(selector)},
        std::move(listeners));
  };
  watch(ObjectKind::kClusters, own_path(options, "easyscaleclusters"), "", {head, jobs, cluster});
  watch(ObjectKind::kJobs, own_path(options, "elastictrainingjobs"), "", {jobs, cluster});
  watch(ObjectKind::kPods, core_path(options, "pods"),
        std::string(kClusterLabel) + "=" + options.cluster, {head, cluster});
  const auto lease = system.spawn<caf::detached>(lease_actor, options,
                                                 std::vector<caf::actor>{head, jobs, cluster});
  wait_for_stop();
  // The Lease is given back when nothing acts any more.
  caf::scoped_actor self(system);
  for (const auto& actor : {jobs, cluster, head})
    self->send_exit(actor, caf::exit_reason::user_shutdown);
  self->wait_for(jobs, cluster, head);
  self->send_exit(lease, caf::exit_reason::user_shutdown);
  self->wait_for(lease);
  log::info("the controller ends; jobs train on");
}

}  // namespace es::actors::kubernetes
