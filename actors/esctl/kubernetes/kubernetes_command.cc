#include "actors/esctl/kubernetes/kubernetes_command.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "actors/base/log/log.h"
#include "actors/base/program/actor_process.h"
#include "actors/base/program/random_tag.h"
#include "actors/esctl/client/stop_signals.h"
#include "actors/esctl/kubernetes/head_link.h"
#include "actors/kubernetes/core/definitions.h"
#include "actors/kubernetes/shell/controller.h"

namespace es::actors::esctl {
namespace {

// Unique among the controllers. A container that was started again is not the one before.
std::string identity() {
  const char* pod = std::getenv("HOSTNAME");
  return (pod == nullptr ? std::string("controller") : std::string(pod)) + "." + random_tag();
}

// Ends every wait for the head, on any thread, when it is set.
class StopSwitch {
 public:
  StopSwitch() : fd_(::eventfd(0, EFD_CLOEXEC)) {}
  ~StopSwitch() { ::close(fd_); }
  StopSwitch(const StopSwitch&) = delete;
  StopSwitch& operator=(const StopSwitch&) = delete;
  void set() {
    is_set_ = true;
    ::eventfd_write(fd_, 1);
  }
  Interrupt interrupt() const {
    return {.fd = fd_, .raised = [this] { return is_set_.load(); }};
  }

 private:
  const int fd_;
  std::atomic<bool> is_set_{false};
};

void wait_for_signal(StopSignals& signals) {
  pollfd fd{signals.fd(), POLLIN, 0};
  while (signals.first() == 0) {
    ::poll(&fd, 1, -1);
    signals.take();
  }
}

// Returns only an error of the time before it has actors.
Status run_controller(const std::string& cluster) {
  // Before the controller has threads.
  StopSignals signals;
  const auto place = kubernetes::in_cluster();
  if (!place) return place.error();
  ES_RETURN_IF_ERROR(log::start({}));
  run_actor_process("esctl kubernetes", 1, [&](caf::actor_system& system) -> Status {
    StopSwitch stop;
    kubernetes::run_controller(
        system, {.place = *place, .cluster = cluster, .identity = identity()},
        [&stop](const std::string& endpoint, const ClusterKeys& keys) {
          return connect_head_link(endpoint, keys, stop.interrupt());
        },
        [&] {
          wait_for_signal(signals);
          stop.set();
        });
    return {};
  });
}

}  // namespace

void add_kubernetes_command(CLI::App& app, Shell& shell) {
  CLI::App* command = app.add_subcommand(
      "kubernetes", "Run the controller of a cluster on Kubernetes, or print its resources");
  command->require_subcommand(1);
  CLI::App* run = command->add_subcommand(
      "run", "Bring jobs and agents to what the objects say; the chart runs it in a pod");
  auto cluster = std::make_shared<std::string>(kubernetes::kDefaultCluster);
  run->add_option("--cluster", *cluster, "Name of the EasyScaleCluster")
      ->type_name("NAME")
      ->capture_default_str();
  run->footer("Example:\n  esctl kubernetes run --cluster easyscale");
  run->callback([cluster, &shell] {
    shell.exit_code = finish(run_controller(*cluster), false, shell.console);
  });
  CLI::App* crd = command->add_subcommand(
      "crd", "Print the custom resource definitions, made from `esctl fields`");
  crd->callback([&shell] {
    shell.console.out << kubernetes::definitions_yaml();
    shell.exit_code = 0;
  });
}

}  // namespace es::actors::esctl
