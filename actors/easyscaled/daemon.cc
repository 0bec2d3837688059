#include "actors/easyscaled/daemon.h"

#include <unistd.h>

#include <caf/all.hpp>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "actors/cluster_scheduler/cluster_scheduler_actor.h"
#include "actors/easyscaled/stop_signal.h"
#include "actors/gateway/gateway_actor.h"
#include "actors/node_agent/node_agent_actor.h"
#include "actors/switchboard/switchboard_actor.h"
#include "store/kv/rocksdb_key_value_store.h"

namespace es::actors {
namespace {

std::uint64_t unix_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

void log_line(const std::string& line) {
  std::cerr << line << std::endl;
}

Status make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return failure(directory.string() + ": cannot be made: " + error.message());
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  return {};
}

NodeAgentOptions node_options(const DaemonOptions& options, const std::string& head_endpoint,
                              StopSignal& stop) {
  NodeAgentOptions node;
  node.name = options.node_name;
  for (const DeviceCount& c : options.devices.counts)
    for (std::uint32_t i = 0; i < c.count; ++i)
      node.devices.push_back({options.node_name, c.type, i});
  node.head_endpoint = head_endpoint;
  node.run_dir = std::filesystem::absolute(options.run_dir);
  node.worker_command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                         "worker",
                         "--loaders",
                         std::to_string(options.loaders),
                         "--rescue",
                         std::filesystem::absolute(options.rescue_dir).string()};
  for (const std::string& argument : to_arguments(options.wire))
    node.worker_command.push_back(argument);
  // Said once: a welcome comes again when the link to the head was lost and is back.
  node.on_welcome = [head_endpoint, said = false]() mutable {
    if (!said) std::cout << "ready " << head_endpoint << std::endl;
    said = true;
  };
  node.on_drained = [&stop] { stop.finish(); };
  node.on_refused = [&stop](const std::string& reason) {
    log_line("the head refuses this node: " + reason);
    stop.finish();
  };
  return node;
}

// Whom the end concerns.
struct Served {
  caf::actor head;  // none: a daemon that is a node only
  caf::actor agent;
};

Result<Served> start_head(caf::actor_system& system, const DaemonOptions& options,
                          StopSignal& stop) {
  const std::filesystem::path state = std::filesystem::absolute(options.state_dir);
  ES_RETURN_IF_ERROR(make_directory(state));
  ES_RETURN_IF_ERROR(make_directory(state / "logs"));
  auto values = store::open_state_directory(state / "db");
  if (!values) return values.error();
  TransportOptions wire;
  wire.self = "head";
  wire.endpoint = options.listen;
  ES_RETURN_IF_ERROR(apply(options.wire, wire));
  const auto switchboard = system.spawn(switchboard_actor);
  const auto gateway = start_gateway(system, std::move(wire), switchboard, log_line);
  if (!gateway) return gateway.error();
  caf::anon_send(switchboard, AttachGateway{gateway->actor});
  ClusterSchedulerOptions cluster;
  cluster.log_dir = state / "logs";
  cluster.checkpoint_dir = state / "checkpoints";
  cluster.unix_ms = unix_ms;
  cluster.on_stopped = [&stop] { stop.finish(); };
  cluster.make_policy = [policy = options.policy, how = options.policy_options] {
    return scheduler::make_policy(policy, how).value();
  };
  cluster.limits = {options.quotas, options.claim_quota};
  const auto head = system.spawn(cluster_scheduler_actor, std::move(cluster), switchboard,
                                 std::make_shared<HeadStore>(*std::move(values)));
  caf::anon_send(switchboard, RegisterPeer{"head", head});
  // The function runs later, on another thread: what it needs of this scope is copied.
  const auto agent = system.spawn([&options, &stop, switchboard, endpoint = gateway->endpoint](
                                      caf::stateful_actor<NodeAgentState>* self) {
    // Registered before its first message, so that the switchboard knows who speaks.
    self->send(switchboard, RegisterPeer{node_peer(options.node_name), self});
    return node_agent_actor(self, node_options(options, endpoint, stop), switchboard);
  });
  return Served{head, caf::actor_cast<caf::actor>(agent)};
}

// The gateway needs its sink first, and the agent needs the gateway.
Result<Served> start_node(caf::actor_system& system, const DaemonOptions& options,
                          StopSignal& stop) {
  TransportOptions wire;
  wire.self = node_peer(options.node_name);
  ES_RETURN_IF_ERROR(apply(options.wire, wire));
  const auto agent = system.spawn([&options, &stop](
                                      caf::stateful_actor<NodeAgentState>* self) -> caf::behavior {
    return {[self, node = node_options(options, options.join, stop)](const AttachGateway& attach) {
      self->become(node_agent_actor(self, node, attach.gateway));
    }};
  });
  const auto gateway = start_gateway(system, std::move(wire), agent, log_line);
  if (!gateway) return gateway.error();
  caf::anon_send(agent, AttachGateway{gateway->actor});
  return Served{{}, caf::actor_cast<caf::actor>(agent)};
}

// The head of one `esctl run`: its job is cancelled, the processes end, then on_stopped finishes
// the wait. The head's end is waited for, since it sends messages (watch_children), which an actor
// that CAF ends in its scheduler's queue must not.
void serve_private_head(caf::actor_system& system, StopSignal& stop, const caf::actor& head) {
  while (stop.wait() != StopSignal::Cause::kFinished) caf::anon_send(head, StopHead{});
  caf::scoped_actor here(system);
  here->send_exit(head, caf::exit_reason::user_shutdown);
  here->wait_for(head);
}

// The threads that wait for workers end only with them, and the kernel ends the workers when this
// process ends: so it does not wait for its threads.
[[noreturn]] void end_now(int code) {
  std::cout.flush();
  ::_exit(code);
}

// What runs on this node is handed over, or saved, and then its agent finishes the wait. When the
// head is here, its jobs are in the journal: those on other nodes go on, and find the next head.
Status serve(StopSignal& stop, const Served& served, std::chrono::milliseconds grace) {
  using Cause = StopSignal::Cause;
  const Cause cause = stop.wait();
  if (cause == Cause::kFinished) return {};
  if (cause == Cause::kParentEnded) end_now(0);
  log_line("hands over what runs here, within " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(grace).count()) +
           " s; a second signal ends at once");
  if (served.head) caf::anon_send(served.head, CloseHead{});
  caf::anon_send(served.agent, Drain{});
  switch (stop.wait(std::chrono::steady_clock::now() + grace)) {
    case Cause::kFinished:
      // The jobs' actors still run, and all that they have promised is on the disk.
      if (served.head) end_now(0);
      return {};
    case Cause::kTimeout:
      log_line("ended before all workers were handed over: --grace is over");
      break;
    default:
      log_line("ended before all workers were handed over: a second signal");
  }
  end_now(exit_code(ErrorKind::kFailure));
}

}  // namespace

Status run_daemon(const DaemonOptions& options) {
  auto stop = StopSignal::create(options.parent_pid);
  if (!stop) return stop.error();
  ES_RETURN_IF_ERROR(make_directory(options.run_dir));
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 2);
  caf::actor_system system(config);
  // Actors end when main does, not the other way round.
  system.await_actors_before_shutdown(false);
  const auto served =
      options.head ? start_head(system, options, *stop) : start_node(system, options, *stop);
  if (!served) return served.error();
  const bool is_private = options.head && options.parent_pid != 0;
  if (!is_private) return serve(*stop, *served, options.grace);
  serve_private_head(system, *stop, served->head);
  return {};
}

}  // namespace es::actors
