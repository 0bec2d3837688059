#pragma once
// NodeBook: which nodes have said hello to this head, and when the devices of one may be used.
//
// A node that arrives may run worker processes. Strays are those that no job knows; their devices
// are not free before the strays have ended, so the node is ready only then. On a node that was
// lost in between all workers are strays, because jobs give up what runs on a lost node. On a node
// that is new to this head, strays are the workers of earlier heads that are not in the journal.
//
// After a restart of the head the nodes with workers of jobs are awaited. Others are not ready
// before these have come, or the caller stops waiting; otherwise jobs would shrink to the nodes
// that came first.
//
// It has no clock, no I/O and no actor. Times are seconds of the caller's clock. Not thread-safe;
// it has one owner.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "proto/base/ids.h"

namespace es::actors {

// What a node says in its hello.
struct NodeArrival {
  std::string name;
  DeviceSet devices;
  std::vector<Incarnation> workers;  // worker processes on the node
  MemoryByType memory = {};
};

class NodeBook {
 public:
  // Every process with a smaller incarnation was started by an earlier head.
  void begin_with(Incarnation first_own) { first_own_ = first_own; }
  // The journal has this worker: it may still run, and its node is awaited.
  void await_worker(Incarnation worker, const JobId& job, const DeviceId& device);
  bool awaits_nodes() const { return !awaited_.empty(); }
  void stop_awaiting() { awaited_.clear(); }

  // The place that the next hello of the node has.
  void set_place(const std::string& node, const NodePlace& place) { places_[node] = place; }
  // Returns the strays. If there are none the node is ready, otherwise when all were reaped. It
  // does not drain any more.
  std::set<Incarnation> hello(const NodeArrival& node);
  // Returns whether this was the last stray of the node, which is ready now.
  bool reaped(const std::string& node, Incarnation worker);
  // Returns the nodes that are ready since the last call, in this order. The caller takes them only
  // when no node is awaited, or when it has stopped waiting.
  std::vector<NodeArrival> take_ready() { return std::exchange(ready_, {}); }
  // The event for a node that was ready, with its place and the devices of its known workers.
  cluster::NodeJoined joined(const NodeArrival& node) const;

  // Returns whether the node did not drain before.
  bool drain(const std::string& node) { return draining_.insert(node).second; }
  bool is_draining(const std::string& node) const { return draining_.contains(node); }
  enum class Parting {
    kUnknown,  // it had not said hello to this head
    kLeft,     // it drained
    kLost,
  };
  // The link to the node is gone, and with it all that was not taken with take_ready().
  Parting part(const std::string& node);

  bool has_said_hello(const std::string& node) const { return was_lost_.contains(node); }
  // Whether the daemon of the node runs, also if jobs have to leave it or have left it.
  bool is_present(const DevicePool::NodeView& node) const;

  // Jobs have to leave the node, which will be gone at gone_s (gone_unix_ms as a date); 0 and 0: it
  // stays.
  void vacate(const std::string& node, double gone_s, std::uint64_t gone_unix_ms) {
    vacated_[node] = {gone_s, gone_unix_ms};
  }
  void stop_vacating(const std::string& node) { vacated_.erase(node); }
  bool is_vacated(const std::string& node) const { return vacated_.contains(node); }
  // Whether the announced end of the node has passed, so that one of this name is another one.
  bool is_gone(const std::string& node, double now_s) const;
  // The date of the announced end, or 0; nullopt: jobs need not leave the node.
  std::optional<std::uint64_t> gone_unix_ms(const std::string& node) const;

 private:
  struct Arriving {
    NodeArrival node;
    std::set<Incarnation> strays;  // those that are not reaped yet
  };
  struct Vacated {
    double gone_s = 0;
    std::uint64_t gone_unix_ms = 0;
  };
  std::set<Incarnation> strays_of(const NodeArrival& node);
  void make_ready(const NodeArrival& node);

  Incarnation first_own_;
  std::map<Incarnation, std::pair<JobId, DeviceId>> journaled_;
  std::map<std::string, bool> was_lost_;  // for each node that has said hello to this head
  std::map<std::string, NodePlace> places_;
  std::map<std::string, Arriving> arriving_;  // nodes that wait until their strays have ended
  std::set<std::string> awaited_;
  std::vector<NodeArrival> ready_;
  std::set<std::string> draining_;  // nodes whose daemons are about to end
  std::map<std::string, Vacated> vacated_;
};

// The time at which jobs leave a node that will be gone in `left_s` seconds: the last part of this
// time, at most half a minute, is for jobs to move or to be saved.
double leave_time_s(double now_s, double left_s);

}  // namespace es::actors
