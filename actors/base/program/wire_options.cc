#include "actors/base/program/wire_options.h"

#include <filesystem>

namespace es::actors {

void add_wire_options(CLI::App& app, WireOptions& options) {
  app.add_option("--keys", options.keys_dir,
                 "Directory with this machine's keys (esctl keygen); required for tcp");
  app.add_flag("--insecure-loopback", options.insecure_loopback,
               "Allow tcp without keys on the loopback address");
  app.add_option(
      "--address", options.address,
      "Address of this node at which its workers listen when the head is reached by tcp");
  app.add_option("--heartbeat", options.heartbeat_ms,
                 "Milliseconds between two beats on an idle link")
      ->check(CLI::Range(10, 600'000))
      ->capture_default_str();
  app.add_option(
         "--dead-after", options.dead_after_ms,
         "Milliseconds of silence after which a process counts as lost; at least twice --heartbeat")
      ->check(CLI::Range(20, 3'600'000))
      ->capture_default_str();
}

Status apply(const WireOptions& wire, TransportOptions& options) {
  options.insecure_loopback = wire.insecure_loopback;
  options.heartbeat_interval = std::chrono::milliseconds(wire.heartbeat_ms);
  options.dead_after = std::chrono::milliseconds(wire.dead_after_ms);
  if (wire.keys_dir.empty()) return {};
  auto keys = read_cluster_keys(wire.keys_dir, KeyUse::kNode);
  if (!keys) return keys.error();
  options.keys = *std::move(keys);
  options.authorized_dir = (std::filesystem::path(wire.keys_dir) / "authorized").string();
  return {};
}

std::vector<std::string> to_arguments(const WireOptions& wire) {
  std::vector<std::string> arguments;
  if (!wire.keys_dir.empty()) arguments.insert(arguments.end(), {"--keys", wire.keys_dir});
  if (wire.insecure_loopback) arguments.push_back("--insecure-loopback");
  if (!wire.address.empty()) arguments.insert(arguments.end(), {"--address", wire.address});
  arguments.insert(arguments.end(), {"--heartbeat", std::to_string(wire.heartbeat_ms),
                                     "--dead-after", std::to_string(wire.dead_after_ms)});
  return arguments;
}

std::string worker_endpoint(const WireOptions& wire, const std::string& head_endpoint,
                            const std::string& run_dir, std::uint64_t incarnation) {
  if (head_endpoint.starts_with("ipc://"))
    return "ipc://" + run_dir + "/worker-" + std::to_string(incarnation) + ".sock";
  // The system chooses the port, since several workers share the address.
  return "tcp://" + (wire.address.empty() ? "127.0.0.1" : wire.address) + ":*";
}

}  // namespace es::actors
