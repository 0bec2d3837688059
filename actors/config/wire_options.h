#pragma once
// Command line options about wires that daemon, worker and client share.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/gateway/zmq_transport.h"

namespace es::actors {

struct WireOptions {
  std::string keys_dir;            // CURVE keys; needed for tcp beyond the loopback address
  bool insecure_loopback = false;  // tcp without keys on the loopback address
  std::string address;             // this node's address, where its workers listen when the head is
                                   // reached by tcp; empty = 127.0.0.1
  // A process that says nothing for so long is taken for lost; what is idle says so much oftener.
  std::uint32_t heartbeat_ms = 400;
  std::uint32_t dead_after_ms = 2000;
};

void add_wire_options(CLI::App& app, WireOptions& options);

// Reads the keys, if any, into transport options.
Status apply(const WireOptions& wire, TransportOptions& options);

// The same options again, for a child process.
std::vector<std::string> to_arguments(const WireOptions& wire);

// Where a worker listens: a socket in the run directory, or a free tcp port when the head is
// reached by tcp.
std::string worker_endpoint(const WireOptions& wire, const std::string& head_endpoint,
                            const std::string& run_dir, std::uint64_t incarnation);

}  // namespace es::actors
