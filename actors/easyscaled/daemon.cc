#include "actors/easyscaled/daemon.h"

#include <malloc.h>

#include <caf/all.hpp>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "actors/base/gateway/shell/gateway_actor.h"
#include "actors/base/log/log.h"
#include "actors/base/program/actor_process.h"
#include "actors/base/program/default_paths.h"
#include "actors/base/program/log_options.h"
#include "actors/base/program/private_directory.h"
#include "actors/base/program/random_tag.h"
#include "actors/easyscaled/stop_signal.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/head/switchboard/shell/switchboard_actor.h"
#include "actors/node/shell/node_agent_actor.h"
#include "actors/service/job_log/shell/job_log_actor.h"
#include "store/kv/rocksdb_key_value_store.h"
#include "store/path_roots.h"
#include "store/recovery/records.h"
#include "store/recovery/recover.h"

namespace es::actors {
namespace {

std::uint64_t unix_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

// The gateway reports what it refuses or cannot do.
void log_gateway(const std::string& line) {
  log::warning(line);
}

constexpr const char* kAuditLog = "audit.log";

// What other users may have read there cannot be taken back, so it is said.
Status make_own_directory(const std::filesystem::path& directory) {
  const auto was_open = make_private_directory(directory);
  if (!was_open) return was_open.error();
  if (*was_open)
    log::warning("directory " + directory.string() +
                 ": other users could enter it; it has mode 0700 now");
  return {};
}

std::filesystem::path own_checkpoints(const DaemonOptions& options) {
  return std::filesystem::absolute(options.state_dir) / "checkpoints";
}

bool listens_to_the_network(const DaemonOptions& options) {
  return !options.listen.starts_with("ipc:");
}

// Whether the jobs of this daemon come from this machine only.
bool has_local_jobs(const DaemonOptions& options) {
  return options.head ? !listens_to_the_network(options) : options.join.starts_with("ipc:");
}

// The clients of connections without keys: the user of this daemon over its local socket, or all
// users of this machine, if the daemon was told to trust them. With keys every client has its own
// role.
std::optional<access::Identity> unkeyed_client(const DaemonOptions& options) {
  if (!listens_to_the_network(options)) return access::Identity{"local", access::Role::kAdmin, ""};
  if (options.wire.insecure_loopback && options.wire.keys_dir.empty())
    return access::Identity{"loopback", access::Role::kOperate, ""};
  return {};
}

// Returns the roots for paths that clients of this head name. `own` is its directory for
// checkpoints. `from_afar`: the clients may be on other machines.
Result<store::PathRoots> client_roots(const DaemonOptions& options,
                                      const std::filesystem::path& own, bool from_afar) {
  auto data = store::resolve_roots(options.data_roots, "--data-root");
  if (!data) return data.error();
  std::vector<std::string> places = options.checkpoint_roots;
  // The own directory is always allowed, because checkpoints of requests without a directory lie
  // there.
  places.push_back(own.string());
  auto checkpoints = store::resolve_roots(places, "--checkpoint-root");
  if (!checkpoints) return checkpoints.error();
  store::PathRoots roots;
  // Local clients run as the user of the head and can read the same files themselves. Paths of
  // clients from the network are always confined, even to no directory at all.
  roots.programs = !from_afar || options.python_data;
  if (from_afar || !options.data_roots.empty()) roots.data = *std::move(data);
  if (from_afar || !options.mlflow.empty()) roots.services = options.mlflow;
  if (from_afar || !options.checkpoint_roots.empty()) roots.checkpoints = *std::move(checkpoints);
  return roots;
}

// The roots on the command line apply to the workers too.
void add_roots(const DaemonOptions& options, std::vector<std::string>& command) {
  for (const std::string& root : options.data_roots)
    command.insert(command.end(), {"--data-root", std::filesystem::absolute(root).string()});
  for (const std::string& root : options.checkpoint_roots)
    command.insert(command.end(), {"--checkpoint-root", std::filesystem::absolute(root).string()});
}

NodeAgentOptions node_options(const DaemonOptions& options, const std::string& head_endpoint,
                              StopSignal& stop) {
  NodeAgentOptions node;
  node.name = options.node_name;
  for (const DeviceCount& c : options.devices.counts) {
    node.memory[c.type] = memory_of_device(c.type);
    for (std::uint32_t i = 0; i < c.count; ++i)
      node.devices.push_back({options.node_name, c.type, i});
  }
  node.rack = options.rack;
  node.island_devices = options.island_devices;
  node.spot = options.spot;
  node.head_endpoint = head_endpoint;
  node.run_dir = std::filesystem::absolute(options.run_dir);
  node.worker_logs = options.worker_logs;
  node.directories.run = node.run_dir.string();
  if (!options.rescue_dir.empty())
    node.directories.rescue = std::filesystem::absolute(options.rescue_dir).string();
  for (const std::string& root : options.checkpoint_roots)
    node.directories.roots.push_back(std::filesystem::absolute(root).string());
  node.worker_command = {std::filesystem::read_symlink("/proc/self/exe").string(), "worker",
                         "--loaders", std::to_string(options.loaders)};
  if (!node.directories.rescue.empty())
    node.worker_command.insert(node.worker_command.end(), {"--rescue", node.directories.rescue});
  for (const std::string& argument : to_arguments(options.wire))
    node.worker_command.push_back(argument);
  for (const std::string& argument : to_arguments(options.log))
    node.worker_command.push_back(argument);
  add_roots(options, node.worker_command);
  if (has_local_jobs(options) || options.python_data)
    node.worker_command.push_back("--python-data");
  // Printed once: the head sends a welcome again after the link to it was lost and restored.
  node.on_welcome = [head_endpoint, name = node.name, said = false]() mutable {
    log::info("the head at " + head_endpoint + " has admitted this node", {.node = name});
    if (!said) std::cout << "ready " << head_endpoint << std::endl;
    if (!said && !std::cout)
      log::warning("standard output cannot be written: the line \"ready\" is lost");
    said = true;
  };
  node.on_drained = [&stop] { stop.finish(); };
  node.on_refused = [&stop](const std::string& reason) {
    log::error("the head refuses this node: " + reason);
    stop.finish();
  };
  return node;
}

// Ends the process without waiting for its threads: the threads that wait for workers end only with
// these, and the kernel ends the workers when this process ends.
[[noreturn]] void end_now(int code) {
  std::cout.flush();
  ::_exit(code);
}

// Logs what was dropped, because the state directory has changed.
Status recover_journal(const std::filesystem::path& directory) {
  const auto recovery = store::recover_state_directory(directory);
  if (!recovery) return recovery.error();
  if (recovery->original.empty()) {
    log::info("state directory " + directory.string() + " is undamaged: nothing was changed");
    return {};
  }
  for (const std::string& what : recovery->dropped) log::warning("dropped: " + what);
  for (const auto& [table, records] : recovery->kept)
    log::info("kept: " + std::to_string(records) + " of " + table);
  log::info("the damaged state directory is kept as " + recovery->original.string());
  return {};
}

// All records are checked here, so that no actor meets a damaged one later.
Result<std::unique_ptr<store::KeyValueStore>> open_journal(const std::filesystem::path& directory,
                                                           bool recover) {
  if (recover) ES_RETURN_IF_ERROR(recover_journal(directory));
  auto values = store::open_state_directory(directory);
  if (!values) return values;
  if (const Status whole = store::check_records(**values); !whole.ok())
    return failure("state directory " + directory.string() + ": " + whole.error().message +
                   "; easyscaled --head --recover continues with the undamaged part");
  return values;
}

// The parts of the daemon that take part in its end.
struct Served {
  caf::actor head;         // none on a daemon that is only a node
  caf::actor switchboard;  // none on a daemon that is only a node
  caf::actor agent;
  Gateway gateway;         // the links end with it
  http::HttpService http;  // empty without --http
};

// The gateway makes the directory of a socket but not its parents, which a new user does not have
// if the state is in another place.
Status make_default_socket_directory(const DaemonOptions& options) {
  constexpr std::size_t kScheme = sizeof("ipc://") - 1;
  if (options.listen != default_head_endpoint()) return {};
  const auto directory = std::filesystem::path(options.listen.substr(kScheme)).parent_path();
  std::error_code ignored;
  return std::filesystem::exists(directory, ignored) ? Status() : make_own_directory(directory);
}

Result<Served> start_head(caf::actor_system& system, const DaemonOptions& options,
                          StopSignal& stop) {
  const std::filesystem::path state = std::filesystem::absolute(options.state_dir);
  ES_RETURN_IF_ERROR(make_own_directory(state));
  ES_RETURN_IF_ERROR(make_own_directory(state / "logs"));
  ES_RETURN_IF_ERROR(make_own_directory(own_checkpoints(options)));
  ES_RETURN_IF_ERROR(make_default_socket_directory(options));
  ES_RETURN_IF_ERROR(http::check_files(options.http));
  const bool from_afar = listens_to_the_network(options);
  auto roots = client_roots(options, own_checkpoints(options), from_afar);
  if (!roots) return roots.error();
  auto http_roots = client_roots(options, own_checkpoints(options), true);
  if (!http_roots) return http_roots.error();
  auto values = open_journal(state / "db", options.recover);
  if (!values) return values.error();
  auto store = std::make_shared<HeadStore>(*std::move(values));
  ES_RETURN_IF_ERROR(store->keep_tag(random_tag()));
  TransportOptions wire;
  wire.self = kHeadPeer;
  wire.endpoint = options.listen;
  // The node of this daemon has no connection, so a peer from outside must not use its name.
  wire.also_self = {node_peer(options.node_name), kHttpPeer, kJobLogPeer};
  ES_RETURN_IF_ERROR(apply(options.wire, wire));
  const auto door = std::make_shared<Door>(DoorOptions{
      .unkeyed = unkeyed_client(options), .audit_log = state / kAuditLog, .unix_ms = unix_ms});
  const auto switchboard = system.spawn(switchboard_actor, door);
  auto gateway =
      start_gateway(system, std::move(wire), switchboard, log_gateway,
                    [log = std::make_shared<access::AuditLog>(state / kAuditLog)](
                        const auto& before, const auto& now) {
                      for (const auto& entry : access::key_changes(before, now, unix_ms()))
                        log->write(entry);
                    });
  if (!gateway) return gateway.error();
  // The gateway needs its sink when it starts, so the switchboard exists first and gets the gateway
  // afterwards.
  caf::anon_send(switchboard, AttachGateway{gateway->actor});
  ClusterSchedulerOptions cluster;
  cluster.log_dir = state / "logs";
  cluster.checkpoint_dir = own_checkpoints(options);
  cluster.retention = options.retention;
  cluster.probe = random_tag();
  cluster.unix_ms = unix_ms;
  cluster.stopwatch_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  cluster.on_stopped = [&stop] { stop.finish(); };
  cluster.on_unreadable = [](const Error& error) {
    log::error(error.message);
    end_now(exit_code(error.kind));
  };
  const std::string shares = scheduler::share_warning(options.policy);
  if (options.share_half_life_s > 0 && !shares.empty())
    log::warning("--share-half-life: " + shares);
  cluster.make_policy = [policy = options.policy, how = options.policy_options] {
    return scheduler::make_policy(policy, how).value();
  };
  cluster.limits = {.queues = options.queues,
                    .share_half_life_s = options.share_half_life_s,
                    .prices = options.prices,
                    .claims = options.claim_quota,
                    .may_grow = options.may_grow};
  const auto job_log = system.spawn<caf::detached>(job_log_actor, switchboard, *roots);
  cluster.on_job = [job_log](const JobId& job, const JobSpec& spec) {
    if (spec.log.any()) caf::anon_send(job_log, LogJob{job, spec.log});
  };
  cluster.roots = {*std::move(roots), *std::move(http_roots)};
  const auto head =
      system.spawn(cluster_scheduler_actor, std::move(cluster), switchboard, std::move(store));
  caf::anon_send(switchboard, RegisterPeer{kHeadPeer, head});
  // The function runs later, on another thread, so it copies what it needs of this scope.
  const auto agent = system.spawn([&options, &stop, switchboard, endpoint = gateway->endpoint](
                                      caf::stateful_actor<NodeAgentState>* self) {
    // Registered before its first message, so that the switchboard knows the sender.
    self->send(switchboard, RegisterPeer{node_peer(options.node_name), self});
    return node_agent_actor(self, node_options(options, endpoint, stop), switchboard);
  });
  Served served{head, switchboard, caf::actor_cast<caf::actor>(agent), *std::move(gateway), {}};
  if (options.http.is_wanted()) {
    auto service = http::start_http_service(system, options.http, state, switchboard,
                                            options.node_name, served.gateway.counters());
    if (!service) return service.error();
    served.http = *std::move(service);
  }
  return served;
}

// The gateway needs its sink first, and the agent needs the gateway.
Result<Served> start_node(caf::actor_system& system, const DaemonOptions& options,
                          StopSignal& stop) {
  const std::filesystem::path state = std::filesystem::absolute(options.state_dir);
  ES_RETURN_IF_ERROR(http::check_files(options.http));
  TransportOptions wire;
  wire.self = node_peer(options.node_name);
  ES_RETURN_IF_ERROR(apply(options.wire, wire));
  const auto agent = system.spawn([&options, &stop](
                                      caf::stateful_actor<NodeAgentState>* self) -> caf::behavior {
    return {[self, node = node_options(options, options.join, stop)](const AttachGateway& attach) {
      self->become(node_agent_actor(self, node, attach.gateway));
    }};
  });
  auto gateway = start_gateway(system, std::move(wire), agent, log_gateway);
  if (!gateway) return gateway.error();
  caf::anon_send(agent, AttachGateway{gateway->actor});
  Served served{{}, {}, caf::actor_cast<caf::actor>(agent), *std::move(gateway), {}};
  if (options.http.is_wanted()) {
    auto service = http::start_http_service(system, options.http, state, {}, options.node_name,
                                            served.gateway.counters());
    if (!service) return service.error();
    served.http = *std::move(service);
  }
  return served;
}

// Serves as the head of one `esctl run`: after a signal its job is cancelled, the processes end,
// and on_stopped finishes the wait.
void serve_private_head(StopSignal& stop, const caf::actor& head) {
  while (stop.wait() != StopSignal::Cause::kFinished) caf::anon_send(head, StopHead{});
}

// Waits until the last answers of the head have reached the gateway and the HTTP server, which send
// them before they end.
void hand_on(caf::actor_system& system, const Served& served) {
  constexpr std::chrono::milliseconds kHandOnMax{500};
  caf::scoped_actor here(system);
  for (const caf::actor& actor : {served.switchboard, served.http.actor})
    if (actor)
      here->request(actor, kHandOnMax, HandOn{})
          .receive([](const HandOn&) {}, [](const caf::error&) {});
}

// After a signal the workers of this node are handed over or saved; then the node agent finishes
// the wait. If the head runs here, its jobs are in the journal: those on other nodes continue and
// connect to the next head. The kernel ends the remaining workers when this process ends.
Status serve(StopSignal& stop, const Served& served, std::chrono::milliseconds grace) {
  using Cause = StopSignal::Cause;
  const Cause cause = stop.wait();
  // A parent that has ended waits for nothing, so there is no time of grace.
  if (cause == Cause::kFinished || cause == Cause::kParentEnded) return {};
  log::info("hands over the workers of this node within " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(grace).count()) +
            " s; a second signal ends this process at once");
  // No new job is accepted from now on, because this head is about to end.
  if (served.head) caf::anon_send(served.head, CloseHead{});
  caf::anon_send(served.agent, Drain{});
  switch (stop.wait(std::chrono::steady_clock::now() + grace)) {
    case Cause::kFinished:
      return {};
    case Cause::kTimeout:
      return failure("ended before all workers were handed over: the time of --grace is over");
    default:
      return failure("ended before all workers were handed over: a second signal has arrived");
  }
}

// A daemon passes parts of saved states and long answers on, on threads that come and go. The
// allocator would keep what they have freed, some megabytes for each of many arenas. With a fixed
// threshold, buffers of this size are mapped, and unmapped when they are freed.
void return_freed_memory() {
  constexpr int kMappedFromBytes = 256 << 10;
  constexpr int kArenas = 4;
  ::mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
  ::mallopt(M_ARENA_MAX, kArenas);
}

}  // namespace

Status run_daemon(const DaemonOptions& options) {
  return_freed_memory();
  auto stop = StopSignal::create(options.parent_pid);
  if (!stop) return stop.error();
  ES_RETURN_IF_ERROR(make_own_directory(options.run_dir));
  // The roots are checked on every daemon, because they are passed on to worker processes, which
  // would report an error only later.
  const auto data_roots = store::resolve_roots(options.data_roots, "--data-root");
  if (!data_roots) return data_roots.error();
  const auto checkpoint_roots = store::resolve_roots(options.checkpoint_roots, "--checkpoint-root");
  if (!checkpoint_roots) return checkpoint_roots.error();
  run_actor_process("easyscaled", 2, [&](caf::actor_system& system) -> Status {
    const auto served =
        options.head ? start_head(system, options, *stop) : start_node(system, options, *stop);
    if (!served) return served.error();
    const bool is_private = options.head && options.parent_pid != 0;
    Status status;
    if (is_private)
      serve_private_head(*stop, served->head);
    else
      status = serve(*stop, *served, options.grace);
    hand_on(system, *served);
    return status;
  });
}

}  // namespace es::actors
