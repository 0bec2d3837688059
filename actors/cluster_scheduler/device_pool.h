#pragma once
// DevicePool: who owns which device of the cluster. Part of ClusterCore, pure state.
//
//   free -- grant --> held -- retire --> returning -- release --> free
//                      `---- release (given back unasked) --------^
//
// A device is lost while its node is, or does not list it any more: it cannot be granted and counts
// as neither held nor free. It remembers its owner, and when the node comes back it is returning
// until that owner has released it: the node may have been unreachable only, with the process still
// running there.
//
// A suspect device computes wrongly, an audit says. Its job releases it like any other, but then it
// is not free before an operator clears it; it does not count as existing meanwhile.
//
// Not thread-safe.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/messages.h"
#include "proto/base/device.h"
#include "proto/base/ids.h"

namespace es::actors {

class DevicePool {
 public:
  struct DeviceView {
    DeviceId id;
    JobId owner;          // empty: none
    std::string suspect;  // why, or empty
  };
  struct NodeView {
    std::string name;
    bool alive = false;
    std::vector<DeviceView> devices;
  };

  // A node with so many devices of each type (indices from 0) is there. New devices are free; known
  // ones of a live node keep their state; lost ones that are listed come back.
  void join(const std::string& node, const DeviceSet& devices);
  // A free device becomes held by the job that was using it all the time, before a restart of the
  // head. False: it is not free (or not there), nothing changed.
  bool adopt(const JobId& job, const DeviceId& device);
  bool is_live(const std::string& node) const;
  // Whether any node has ever joined.
  bool has_nodes() const { return !live_nodes_.empty(); }
  // All devices of the node are lost. Nothing happens when it is not live. Returns the jobs that
  // held some of them, ascending.
  std::vector<JobId> lose(const std::string& node);

  // Grants `count` free devices of the type: on nodes where the job holds most devices, then where
  // most of the type are free, then by name. REQUIRES: so many are free.
  void grant(const JobId& job, const DeviceType& type, std::uint32_t count);
  // Takes `count` held devices of the type back: they are returning until the job releases them.
  // From nodes where the job holds fewest devices first. REQUIRES: the job holds so many.
  void retire(const JobId& job, const DeviceType& type, std::uint32_t count);

  enum class Released {
    kReturned,   // it was asked for
    kUnasked,    // the job held it
    kNotItsOwn,  // nothing changed
  };
  Released release(const JobId& job, const DeviceId& device);
  // The job is over: it owns nothing any more.
  void release_all(const JobId& job);

  // Also of a device that is not known (yet).
  void suspect(const DeviceId& device, const std::string& reason);
  // False: it is not suspect.
  bool clear(const DeviceId& device);

  const std::set<DeviceId>& held(const JobId& job) const;
  // Held, returning or lost.
  const std::set<DeviceId>& owned(const JobId& job) const;
  const DeviceSet& free_devices() const { return free_devices_; }
  const DeviceSet& returning_devices() const { return returning_devices_; }
  // All that are not lost, nor suspect and released.
  const DeviceSet& existing_devices() const { return existing_devices_; }
  DeviceSet held_devices(const JobId& job) const;
  // Devices that the job has not released yet, though they were taken back; without lost ones.
  std::uint32_t returning_count(const JobId& job) const;
  std::vector<NodeView> nodes() const;  // by name

  // Every job that owns a device in whatever state, ascending.
  std::vector<JobId> owners() const;
  // Every device is in one state, the counts and the sets of the jobs agree with it.
  void check_invariants() const;

 private:
  enum class State { kFree, kHeld, kReturning, kSuspect, kLost };
  struct Device {
    State state = State::kLost;
    JobId owner;  // not empty when held or returning; maybe when lost
  };
  // The free devices of one type: by node, and the nodes in the order in which grant() prefers
  // them.
  struct Free {
    void insert(const DeviceId& id);
    void erase(const DeviceId& id);
    std::map<std::string, std::set<std::uint32_t>> by_node;   // indices; no empty sets
    std::set<std::pair<std::int64_t, std::string>> by_count;  // (-devices, node)
    bool operator==(const Free&) const = default;
  };

  // Of a device that is there and has no owner any more.
  State unowned(const DeviceId& id) const {
    return suspects_.contains(id) ? State::kSuspect : State::kFree;
  }
  void set_state(const DeviceId& id, Device& device, State state, const JobId& owner);
  // Enters a device into what is kept beside devices_, or takes it out.
  void account(const DeviceId& id, const Device& device, bool add);

  std::map<std::string, bool> live_nodes_;    // every node ever seen, and whether it is there
  std::map<DeviceId, Device> devices_;        // of all these nodes
  std::map<DeviceId, std::string> suspects_;  // and why
  // What is asked for after every event, kept in step with devices_ by set_state(). No empty sets.
  std::map<JobId, std::set<DeviceId>> owned_;  // in whatever state
  std::map<JobId, std::set<DeviceId>> held_;
  std::map<DeviceType, Free> free_;
  DeviceSet free_devices_;
  DeviceSet returning_devices_;
  DeviceSet existing_devices_;
};

}  // namespace es::actors
