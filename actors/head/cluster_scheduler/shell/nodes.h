#pragma once
// Nodes: the messages of nodes that come, drain and go. NodeBook decides when the devices of a node
// may be used; this class tells it what nodes say, ClusterCore which nodes have joined, and nodes
// what they are to do.
//
// Ownership: it uses the book, the decisions and the gateway, and owns what nodes say about
// themselves for display. Used by one actor.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/nodes_to_leave.h"
#include "actors/head/cluster_scheduler/shell/replies.h"
#include "actors/worker/state/saved_state_files.h"

namespace es::actors {

// The name of the node with this id; no value: it is no node.
std::optional<std::string> node_named(const PeerId& peer);

class Nodes {
 public:
  struct Options {
    std::filesystem::path checkpoint_dir;  // empty: there is none
    std::string probe;                     // empty: nodes do not look whether they see it
  };
  struct Ports {
    std::function<void(const Inbound&)> tell_live_jobs;
    // The devices or the nodes of the cluster have changed.
    std::function<void()> inventory_changed;
  };
  Nodes(NodeBook& book, NodesToLeave& to_leave, Decisions& decisions, const Replies& replies,
        ClusterClock clock, Options options, Ports ports)
      : book_(book),
        to_leave_(to_leave),
        decisions_(decisions),
        replies_(replies),
        clock_(std::move(clock)),
        options_(std::move(options)),
        ports_(std::move(ports)) {}

  // Writes the file by which nodes find out whether they see the same disk.
  void write_probe_file() const;

  // Messages of nodes. What is malformed, or comes from another peer, is ignored.
  void on_place(const Inbound& inbound);
  // A hello is always answered, and refused if it is malformed or in another name.
  void on_hello(const Inbound& inbound);
  void on_drain(const Inbound& inbound);
  // The job of the worker has been told before.
  void on_worker_exited(const Inbound& inbound);
  void on_directory_tried(const Inbound& inbound);
  // Hands the request of a client for the log of a worker to the node, and the answer to the
  // client.
  // Error: malformed, or the node is not connected.
  Status read_worker_log(const Inbound& inbound, const JobId& job);
  void on_worker_log(const Inbound& inbound);
  // The nodes of the journal had time to return.
  void stop_waiting();
  // The link to a node is gone. Returns false, and does nothing, if it had not said hello.
  bool part(const std::string& node);

  // Whether the node sees checkpoint_dir; nullptr: not known. Valid until the next message.
  const DirectoryTrial* trial_of(const std::string& node) const;
  // How far its clock was ahead of the head's when it said hello; no value: not known.
  std::optional<std::int64_t> clock_ahead_ms(const std::string& node) const;

 private:
  void join_ready();
  void join(const NodeArrival& node);

  NodeBook& book_;
  NodesToLeave& to_leave_;
  Decisions& decisions_;
  const Replies& replies_;
  const ClusterClock clock_;
  const Options options_;
  const Ports ports_;
  std::map<std::string, DirectoryTrial> trials_;
  std::map<std::string, std::int64_t> clocks_ahead_ms_;
};

}  // namespace es::actors
