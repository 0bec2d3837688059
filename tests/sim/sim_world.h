#pragma once
// SimWorld is the real head (ClusterScheduler, IntraJobSchedulers, Companions) over a store in
// memory, with a simulated gateway, simulated nodes and one client, all in virtual time on one
// thread.
//
// The same options and the same calls give the same history, message by message. Nothing happens
// between calls: time passes only in run_for(), run_until() and the client's waiting calls.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/retention.h"
#include "actors/head/head_store.h"
#include "scheduler/policy/registry.h"
#include "store/kv/memory_key_value_store.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_cluster.h"

namespace es::test {

struct SimWorldOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> nodes = {{"n1", "cpu-avx2:2"}};  // name -> device set
  std::string policy{scheduler::kDefaultPolicy};
  actors::cluster::Retention retention{};
  bool has_date = false;  // the date goes on with the virtual time; otherwise it stands still
};

// The head dies at the nth write to its disk from now on, before the write is done. 0: it does not
// die.
struct DiskTrap {
  std::uint32_t writes_left = 0;
  std::function<void()> on_death;
  std::function<void()> on_job_written;  // Called after each write of a record of a job.
  // The disk accepts no writes from the nth write on; with 1, from now on. 0: it accepts all.
  std::uint32_t fails_at = 0;
  std::uint64_t writes = 0;  // Requested writes.
  std::uint64_t failed = 0;  // Failed writes among these.
  bool fails_now = false;
};

class SimWorld {
 public:
  explicit SimWorld(SimWorldOptions options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  SimClient& client() { return *client_; }
  SimCluster& cluster() { return *cluster_; }
  const History& history() const { return history_; }
  actors::Instant now();

  void run_for(actors::Instant duration);
  // Ends early when a process is caught in a trap.
  void run_for_or_caught(actors::Instant duration);
  // Returns false if the condition did not hold within `limit`.
  bool run_until(const std::function<bool()>& holds, actors::Instant limit);

  // A random duration in [least, most], for random faults.
  actors::Instant random_time(actors::Instant least, actors::Instant most);
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  // The incarnations that run now, of all jobs.
  std::vector<Incarnation> running() const;
  void crash_worker(Incarnation incarnation);
  void lose_node(const std::string& name);
  // The daemon gets SIGTERM; SimCluster::ended_daemons says when it has ended.
  void end_daemon(const std::string& name);
  // The machine boots again.
  void return_node(const std::string& name);
  // Cuts the connections of the node and its workers. The processes keep running. `out`: the
  // others receive nothing from them. `in`: they receive nothing from the others.
  void cut_node(const std::string& name, bool out = true, bool in = true);
  void heal_node(const std::string& name);
  void freeze_worker(Incarnation incarnation);
  void wake_worker(Incarnation incarnation);
  // For the simulated gateway: BlockLink, ResetLink, SlowLink, LoseFrames, SetTrap.
  template <class Fault>
  void disturb(Fault fault) {
    caf::anon_send(gateway_, std::move(fault));
  }
  // The process that was caught in a trap since the last call. A worker is dead or frozen by then,
  // a head is not stopped yet.
  std::optional<std::pair<actors::PeerId, bool>> take_caught() {
    return std::exchange(caught_, std::nullopt);
  }
  void trap_disk(std::uint32_t nth_write) { disk_trap_->writes_left = nth_write; }
  // The disk of the head accepts no writes from its nth write on, until it is repaired.
  void fill_disk(std::uint32_t nth_write) { disk_trap_->fails_at = nth_write; }
  void mend_disk() {
    disk_trap_->fails_at = 0;
    disk_trap_->fails_now = false;
  }
  const DiskTrap& disk_trap() const { return *disk_trap_; }
  bool head_runs() const { return static_cast<bool>(head_); }
  // What a head would find on the disk now.
  actors::HeadStore disk() const;
  void stop_head();
  void start_head();

 private:
  bool step();
  void run_for(actors::Instant duration, const std::function<bool()>& or_until);
  void start_node(const std::string& name);
  std::optional<Version> newest_saved(const JobId& job, Generation generation);
  void remember_saved();
  void on_caught(const actors::PeerId& peer, bool freeze);

  SimWorldOptions options_;
  std::mt19937_64 random_;
  std::shared_ptr<SimCluster> cluster_ = std::make_shared<SimCluster>();
  std::shared_ptr<store::MemoryKeyValueStore> disk_ =
      std::make_shared<store::MemoryKeyValueStore>();
  std::shared_ptr<DiskTrap> disk_trap_ = std::make_shared<DiskTrap>();
  History history_;
  actors::Instant last_step_{};
  std::uint64_t messages_now_ = 0;  // Messages that were handled since time passed.

  caf::actor_system_config config_;
  std::optional<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor gateway_, head_, client_actor_;
  std::map<std::string, caf::actor> nodes_;
  // Version, node and path of each saved state that the journal has ever named.
  std::map<JobId, std::set<std::tuple<Version, std::string, std::string>>> saved_once_;
  std::optional<std::pair<actors::PeerId, bool>>
      caught_;  // The process, and whether it was frozen.
  std::optional<SimClient> client_;
};

}  // namespace es::test
