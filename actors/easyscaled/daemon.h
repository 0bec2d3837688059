#pragma once
// The daemon: head and node in one process, or a node that joins a head.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/wire_options.h"
#include "proto/base/device.h"
#include "proto/base/result.h"
#include "scheduler/policy/registry.h"

namespace es::actors {

struct DaemonOptions {
  bool head = false;
  std::string join;        // endpoint of the head, for a node
  std::string listen;      // where the head serves
  std::string state_dir;   // the head's RocksDB, logs and checkpoints
  bool recover = false;    // a damaged RocksDB: go on with what is whole
  std::string run_dir;     // sockets, specs and logs of this node's workers
  std::string rescue_dir;  // states of jobs that failed because of their data; empty: none is kept
  std::string node_name;
  DeviceSet devices;                        // the devices that this node offers
  int loaders = 1;                          // threads of each worker process that load mini-batches
  std::chrono::milliseconds grace{30'000};  // to hand over what runs on a node that is to end
  std::string policy{scheduler::kDefaultPolicy};  // head: scheduler/policy/registry.h
  scheduler::PolicyOptions policy_options;
  std::vector<scheduler::Quota> quotas;  // head: devices that tenants own
  std::optional<DeviceSet> claim_quota;  // head: the most that claims take; none: all
  // Where the paths lie that a head's clients name, and that this node's workers use. Without: for
  // clients that reach the head by tcp, checkpoints in the state directory, and no data; else
  // anywhere. A head's own directory for checkpoints always counts.
  std::vector<std::string> data_roots, checkpoint_roots;
  WireOptions wire;
  int parent_pid = 0;  // end when this process does, and a head with its jobs; 0 = none
};

// Returns only the errors that come before it serves; else the process ends here, with the exit
// code of what is described next and an error's message on stderr. Serves until SIGTERM or SIGINT,
// until a client's Shutdown, or until the parent ends. After a signal it hands its node's workers
// over to other nodes, or has their jobs saved, and ends when the last one has ended; after the
// grace, or at a second signal, at once, with an error. A head accepts no job meanwhile; all that
// it has go on when it is started again. A head that belongs to a parent, and any head after
// Shutdown, cancels the jobs instead, waits for their processes and ends. Prints "ready ENDPOINT"
// on stdout when the head serves and this node's devices are in its inventory.
Status run_daemon(const DaemonOptions& options);

}  // namespace es::actors
