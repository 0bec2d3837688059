#pragma once
// Fleet contains the devices and worker processes of a job, and chooses the workers that should be
// members.
//
// Pure bookkeeping and choices: the head core turns the answers into effects. Invariants: a held
// device has at most one process; a device is given back only after its process was reaped
// (WorkerExited), so that its memory is free.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

struct Worker {
  enum class Phase {
    kStarting,  // the process was started and has not sent Hello
    kWarm,      // has sent Hello, takes no part in rounds yet
    kKnown,     // takes part in rounds: receives Prepare and may hold a version
    kLeaving,   // released or killed; only its exit is awaited
  };
  Incarnation incarnation;
  DeviceId device;
  Phase phase = Phase::kStarting;
  std::string address;
  std::string host_id;
  protocol::ChannelPoint channel{};  // none after a restart of the head, until the next Hello
  std::string kernels{};             // as in Hello
  bool placed = false;               // member of the last installed placement
  std::optional<Version> version{};  // newest version that it reported to hold
  Instant started{};
  Instant leaving_since{};
  bool killed = false;
  bool worked = false;  // had a part in a version of the ledger
};

// The devices that the job wants: an exact set; nullopt: all that it is given.
using Wanted = std::optional<DeviceSet>;

class Fleet {
 public:
  explicit Fleet(std::uint32_t max_p) : max_p_(max_p) {}

  // Returns false for a stale allocation, which changes nothing.
  bool allocate(const Allocation& allocation);
  // Adds a device that a restarted head finds in its journal.
  void hold(const DeviceId& device);
  bool holds(const DeviceId& device) const { return held_.contains(device); }
  const std::set<DeviceId>& held() const { return held_; }
  // The nodes of the held devices.
  const std::set<std::string>& nodes() const { return nodes_; }
  // The same, of all devices that this job has ever held under this head.
  const std::set<std::string>& nodes_used() const { return nodes_used_; }
  bool holds_nothing() const { return held_.empty() && workers_.empty(); }
  // What the held devices cost in an hour, as far as an allocation has told it.
  double price_per_hour() const;
  bool allocated(const DeviceId& device) const {
    return allocated_.contains(device) && !given_up_.contains(device);
  }
  // Counts the allocated devices that were not given up.
  DeviceSet allocated_set() const;
  // Places nothing on this device any more, whatever an Allocation says. The device is given back
  // as soon as its process has ended.
  void give_up(const DeviceId& device) {
    given_up_.insert(device);
    settled_for_.reset();
  }
  // The held devices without a process.
  const std::set<DeviceId>& idle_devices() const { return idle_; }
  // REQUIRES: the device is held and idle.
  void release(const DeviceId& device);

  // REQUIRES: the device is held and idle.
  Worker& add(Incarnation incarnation, const DeviceId& device);
  void erase(Incarnation incarnation);
  // The worker takes no part any more; only its exit is awaited.
  void leave(Worker& worker);
  Worker* find(Incarnation incarnation);
  const std::map<Incarnation, Worker>& workers() const { return workers_; }
  std::map<Incarnation, Worker>& workers() { return workers_; }
  std::vector<Incarnation> in_phase(Worker::Phase phase) const;
  std::vector<Incarnation> placed() const;

  struct Choice {
    std::set<Incarnation> workers;
    bool complete = false;  // exactly what is wanted; for "all": no further worker is starting
  };
  // Chooses the future members among the known workers (and the warm ones if `with_warm`) on
  // devices that are still allocated. Members stay where the types allow it, so that few processes
  // change.
  Choice choose(const Wanted& wanted, bool with_warm) const;
  // Returns whether choose(wanted, true) cannot be complete, because a process that it would choose
  // is starting. Finds this without a look at all workers while most of them are starting.
  bool awaits_start(const Wanted& wanted) const;
  // Returns the members to use while the wanted set is not available: the known workers on
  // allocated devices or, if there are none, all known workers.
  std::set<Incarnation> all_available() const;

  // Returns the idle devices on which `wanted` needs a process, and those that it does not need at
  // all. Returns nothing before the first allocation, unless `wanted` is the empty set.
  struct Staffing {
    std::vector<DeviceId> start;
    std::vector<DeviceId> give_back;
    std::vector<Incarnation> dismiss;  // starting or warm, and not wanted
  };
  Staffing staffing(const Wanted& wanted) const;

 private:
  bool available(const Worker& worker) const {
    return worker.phase != Worker::Phase::kLeaving && allocated(worker.device);
  }

  std::uint32_t max_p_;
  std::uint64_t sequence_ = 0;
  std::uint64_t releases_ = 0;
  std::map<DeviceId, std::uint64_t> released_;  // by device: number of its last release
  std::set<DeviceId> held_;
  std::map<DeviceId, double> price_per_hour_;  // of held devices
  std::set<DeviceId> idle_;
  std::set<std::string> nodes_, nodes_used_;
  std::set<DeviceId> allocated_;
  std::set<DeviceId> given_up_;  // removed at their release
  std::map<Incarnation, Worker> workers_;
  // staffing() for this has nothing to start, give back or dismiss, as long as no worker or device
  // comes, goes or leaves. A worker that comes up changes nothing.
  mutable std::optional<Wanted> settled_for_;
};

}  // namespace es::actors::intra_job
