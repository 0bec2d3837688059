#pragma once
// The daemon: head and node in one process, or a node that joins a head.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/log/log.h"
#include "actors/base/program/wire_options.h"
#include "actors/head/cluster_scheduler/core/retention.h"
#include "actors/service/shell/http_service.h"
#include "proto/base/device.h"
#include "proto/base/result.h"
#include "scheduler/policy/registry.h"

namespace es::actors {

struct DaemonOptions {
  bool head = false;
  std::string join;        // node: endpoint of the head
  std::string listen;      // head: endpoint at which it serves
  std::string state_dir;   // head: RocksDB, logs and checkpoints
  bool may_grow = false;   // head: what needs more devices than there are waits for them
  bool recover = false;    // head: continue with the whole part of a damaged RocksDB
  std::string run_dir;     // sockets, specs and logs of this node's workers
  std::string rescue_dir;  // states of jobs that failed because of their data; empty: none
  std::string node_name;
  std::string rack;                         // where this node stands; empty: not known
  bool spot = false;                        // this machine may be taken away at any time
  std::uint32_t island_devices = 0;         // devices of a type that are linked; 0: all of the node
  DeviceSet devices;                        // devices that this node offers
  int loaders = 1;                          // threads of each worker process that load mini-batches
  std::chrono::milliseconds grace{30'000};  // time to hand over the workers of a node that ends
  std::string policy{scheduler::kDefaultPolicy};  // head: see scheduler/policy/registry.h
  scheduler::PolicyOptions policy_options;
  std::vector<scheduler::Queue> queues;  // head: completed_queues()
  scheduler::Prices prices;              // head: what devices cost
  double share_half_life_s = 0;          // head: of the usage of queues; 0: no fair share
  cluster::Retention retention;          // head: of jobs that are over
  std::optional<DeviceSet> claim_quota;  // head: limit of all claims; nullopt: all devices
  // Directories in which the paths must lie that clients of a head name and that this node's
  // workers use. Without them, clients that reach the head by tcp may name checkpoints in the state
  // directory and no data; other clients may name any path. A head's own directory for checkpoints
  // is always allowed.
  std::vector<std::string> data_roots, checkpoint_roots;
  // MLflow servers that the same clients may name; others may name any.
  std::vector<std::string> mlflow;
  // Whether jobs that come over the network may run the Python code of their datasets. Jobs of
  // clients on this machine always may.
  bool python_data = false;
  http::HttpOptions http;  // head: its HTTP service
  WireOptions wire;
  log::Options log;
  std::uint32_t worker_logs = 1000;  // of workers that have ended; older ones are removed
  int parent_pid = 0;  // end when this process ends, and a head with its jobs; 0: none
};

// Runs the daemon, whose log must be started. Returns only errors that occur before it serves.
// Otherwise the process ends in this function, with an exit code for the cases below and with an
// error's message in the log.
//
// The daemon serves until SIGTERM or SIGINT, until Shutdown by a client, or until its parent ends.
// After a signal it hands the workers of its node over to other nodes or has their jobs saved, and
// ends when the last worker has ended. After the grace, or at a second signal, it ends at once with
// an error. Meanwhile a head accepts no new job; its jobs continue under the next head. A head with
// a parent, and every head after Shutdown, cancels its jobs instead, waits for their processes and
// ends.
//
// Prints "ready ENDPOINT" on stdout when the head serves and this node's devices are known to it.
Status run_daemon(const DaemonOptions& options);

}  // namespace es::actors
