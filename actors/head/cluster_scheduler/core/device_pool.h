#pragma once
// DevicePool stores which job or claim owns which device of the cluster. It is a part of
// ClusterCore and pure state.
//
//   free -- grant --> held -- retire --> returning -- release --> free
//                      `---- release (given back unasked) --------^
//
// A device is lost while its node is lost or does not list the device any more. A lost device
// cannot be granted and counts as neither held nor free. It keeps its owner. When the node returns,
// the device is returning until its owner has released it, because the node may only have been
// unreachable, with the process still running there.
//
// Of a node that is being vacated, jobs keep what they hold until the node is lost. A device that
// is free there, or becomes free, is lost.
//
// A suspect device is not to be used: it computes wrongly, according to an audit, or tries to use
// it have failed. Its job releases it like any other device. After that it is not free: until an
// operator clears it, and it does not count as existing, or until a time, and it exists meanwhile.
//
// Devices lie in a rack, a node, and possibly an island of a node (NVLink): two devices are the
// closer, the more of these they share. The devices of a job are chosen so that it lies in few
// racks, then on few nodes, then in few islands.
//
// Not thread-safe.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "proto/base/device.h"
#include "proto/base/ids.h"
#include "scheduler/plans/worker_memory.h"

namespace es::actors {

// Where a node is, as far as it has said so.
struct NodePlace {
  std::string rack;  // empty: not known; such nodes are in one rack
  // Devices of one type with the indices k * n to (k + 1) * n - 1 are an island; 0: all of the
  // node.
  std::uint32_t island_devices = 0;
  bool spot = false;  // it may be taken away at any time
  bool is_known() const { return !rack.empty() || island_devices > 0 || spot; }
  bool operator==(const NodePlace&) const = default;
};

// The memory of the devices of a node, as far as it is known.
using MemoryByType = std::map<DeviceType, scheduler::MemoryRoom>;

class DevicePool {
 public:
  struct DeviceView {
    DeviceId id;
    JobId owner;                              // empty: none
    std::string suspect;                      // reason; empty: not suspect
    std::optional<double> suspect_until_s{};  // nullopt: until an operator clears it
  };
  struct NodeView {
    std::string name;
    bool alive = false;
    std::vector<DeviceView> devices;
    NodePlace place;
  };

  // The node is present with these numbers of devices of each type (indices from 0). New devices
  // are free. Known devices of a live node keep their state. Lost devices that are listed return.
  void join(const std::string& node, const DeviceSet& devices, const NodePlace& place = {},
            const MemoryByType& memory = {});
  // Marks a free device as held by the job that used it before a restart of the head. Returns false
  // and changes nothing if the device is not free or does not exist.
  bool adopt(const JobId& job, const DeviceId& device);
  bool is_live(const std::string& node) const;
  bool is_spot(const std::string& node) const { return place_of(node).spot; }
  // Whether a node with a device has ever joined.
  bool knows_devices() const { return !devices_.empty(); }
  // Marks all devices of the node as lost. Does nothing if the node is not live. Returns the jobs
  // that held some of them, ascending.
  std::vector<JobId> lose(const std::string& node);

  // How the devices of a grant are chosen.
  struct Wish {
    std::uint32_t room = 0;  // devices that the job may be granted later, beyond this grant
    bool on_spot = true;     // devices of spot nodes are taken first; otherwise last
    // Devices that the job is not given, and pairs of nodes of which it is given one only; null:
    // none.
    std::function<bool(const std::string& node, const DeviceType& type)> avoids{};
    std::function<bool(const std::string& a, const std::string& b)> cut{};
  };
  // Grants `count` free devices of the type. Racks, and in a rack nodes, where the job holds most
  // devices come first. What these do not have comes from the rack, and in a rack from the node,
  // with the fewest free devices that suffice, also for `room`, so that others stay whole; if none
  // suffices, from the one with the most, and so on. While no node has said where it is, nodes with
  // most free devices come first instead. Equal ones come by name. In a node the islands are chosen
  // in the same way. Spot nodes count as racks of their own. Returns the number of granted devices,
  // which is smaller than `count` only where the wish leaves fewer. REQUIRES: this many are free.
  std::uint32_t grant(const JobId& job, const DeviceType& type, std::uint32_t count,
                      const Wish& wish);
  void grant(const JobId& job, const DeviceType& type, std::uint32_t count) {
    grant(job, type, count, Wish());
  }
  // How many free devices of the type a grant with this wish can give.
  std::uint32_t reachable(const JobId& job, const DeviceType& type, const Wish& wish) const;
  // Takes back `count` held devices of the type: they are returning until the job releases them.
  // Begins with racks, and in a rack with nodes and islands, where the job holds fewest devices.
  // REQUIRES: the job holds this many.
  void retire(const JobId& job, const DeviceType& type, std::uint32_t count);

  enum class Released {
    kReturned,   // it was asked for
    kUnasked,    // the job held it
    kNotItsOwn,  // nothing changed
  };
  Released release(const JobId& job, const DeviceId& device);
  // The job is over and owns nothing any more.
  void release_all(const JobId& job);

  // Grants no more devices of the node until stay(). The node need not be known (yet).
  void vacate(const std::string& node);
  // Ends vacate(). If the daemon of the node runs, its devices are there again, as after join(),
  // also after a lose() that was to empty the node. Returns false if it is not being vacated.
  bool stay(const std::string& node, bool is_present);

  // The device need not be known (yet). A time does not replace a suspicion without one.
  void suspect(const DeviceId& device, const std::string& reason,
               std::optional<double> until_s = std::nullopt);
  // Returns false if the device is not suspect.
  bool clear(const DeviceId& device);
  bool is_suspect(const DeviceId& device) const { return suspects_.contains(device); }
  // Clears the devices whose time has come.
  void clear_until(double now_s);
  // Clears a device, or all devices of a node, that are suspect until a time.
  void clear_timed(const DeviceId& device);
  void clear_timed(const std::string& node);
  // The next time at which a device is not suspect any more; nullopt: there is none.
  std::optional<double> next_clear_s() const;
  // All devices of the node that it has ever listed.
  std::vector<DeviceId> devices_of(const std::string& node) const;
  // The nodes with a device of one of these types that is free or has an owner.
  std::set<std::string> nodes_with(const std::vector<DeviceType>& types) const;
  // The memory of a device of this type of the node.
  scheduler::MemoryRoom memory_of(const std::string& node, const DeviceType& type) const;
  // The devices that nodes have listed, also those of nodes that are away, by type and memory.
  const std::vector<scheduler::RoomyDevices>& kinds() const { return kinds_; }

  const std::set<DeviceId>& held(const JobId& job) const;
  // Held, returning or lost devices of the job.
  const std::set<DeviceId>& owned(const JobId& job) const;
  const DeviceSet& free_devices() const { return free_devices_; }
  const DeviceSet& returning_devices() const { return returning_devices_; }
  // All devices except lost ones, and released ones that are suspect without a time.
  const DeviceSet& existing_devices() const { return existing_devices_; }
  DeviceSet held_devices(const JobId& job) const;
  // The number of devices that the job must still release, without lost ones.
  std::uint32_t returning_count(const JobId& job) const;
  std::vector<NodeView> nodes() const;  // by name

  // Every job that owns a device in any state, ascending.
  std::vector<JobId> owners() const;
  // Aborts unless every device is in one state and the counts and the sets of the jobs agree.
  void check_invariants() const;

 private:
  enum class State { kFree, kHeld, kReturning, kSuspect, kLost };
  struct Device {
    State state = State::kLost;
    JobId owner;  // not empty if held or returning; may be set if lost
  };
  // The free devices of one type: by node, and by rack the nodes with most devices first.
  struct Free {
    struct Rack {
      std::uint32_t devices = 0;
      std::set<std::pair<std::int64_t, std::string>> by_count;  // (-devices, node)
      bool operator==(const Rack&) const = default;
    };
    void insert(const DeviceId& id, const std::string& rack);
    void erase(const DeviceId& id, const std::string& rack);
    std::map<std::string, std::set<std::uint32_t>> by_node;  // indices; no empty sets
    std::map<std::string, Rack> racks;                       // none without devices
    bool operator==(const Free&) const = default;
  };
  class Choice;  // of grant()
  struct Suspicion {
    std::string reason;
    std::optional<double> until_s{};
  };

  const NodePlace& place_of(const std::string& node) const;
  void count_kinds();
  // The rack of a node in the order of grant().
  std::string rack_of(const std::string& node) const;

  // The state of a device of a live node that has no owner.
  State unowned(const DeviceId& id) const {
    return vacated_.contains(id.node) ? State::kLost
           : suspects_.contains(id)   ? State::kSuspect
                                      : State::kFree;
  }
  bool exists(const DeviceId& id, const Device& device) const;
  void set_state(const DeviceId& id, Device& device, State state, const JobId& owner);
  // Adds a device to the indexes beside devices_, or removes it from them.
  void account(const DeviceId& id, const Device& device, bool add);

  std::map<std::string, bool> live_nodes_;   // every node ever seen, and whether it is live
  std::map<std::string, NodePlace> places_;  // of nodes that have said where they are
  std::map<std::string, MemoryByType> memory_;
  std::vector<scheduler::RoomyDevices> kinds_;
  std::map<std::string, DeviceSet> listed_;  // devices of all these nodes, as of the last join()
  std::set<std::string> vacated_;            // nodes that jobs have to leave
  std::map<DeviceId, Device> devices_;       // devices of all these nodes
  std::map<DeviceId, Suspicion> suspects_;
  // Indexes of devices_, which set_state() updates. They contain no empty sets.
  std::map<JobId, std::set<DeviceId>> owned_;  // in any state
  std::map<JobId, std::set<DeviceId>> held_;
  std::map<DeviceType, Free> free_;
  DeviceSet free_devices_;
  DeviceSet returning_devices_;
  DeviceSet existing_devices_;
};

}  // namespace es::actors
