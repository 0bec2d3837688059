#pragma once
// Command line options for connections, shared by daemon, worker and client.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/zmq_transport.h"

namespace es::actors {

struct WireOptions {
  std::string keys_dir;            // CURVE keys; needed for tcp beyond the loopback address
  bool insecure_loopback = false;  // allow tcp without keys on the loopback address
  // This node's address, at which its workers listen if the head is reached by tcp. An empty text
  // means 127.0.0.1.
  std::string address;
  // A process that sends nothing for dead_after_ms is lost. An idle process therefore sends a beat
  // every heartbeat_ms.
  std::uint32_t heartbeat_ms = 400;
  std::uint32_t dead_after_ms = 2000;
};

void add_wire_options(CLI::App& app, WireOptions& options);

// Reads the keys, if there are any, and sets the transport options.
Status apply(const WireOptions& wire, TransportOptions& options);

// Returns the same options for a child process.
std::vector<std::string> to_arguments(const WireOptions& wire);

// The endpoint at which a worker listens: a socket in the run directory, or a free tcp port if the
// head is reached by tcp.
std::string worker_endpoint(const WireOptions& wire, const std::string& head_endpoint,
                            const std::string& run_dir, std::uint64_t incarnation);

}  // namespace es::actors
