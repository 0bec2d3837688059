#pragma once
// SimWorld: the real head (ClusterScheduler, IntraJobSchedulers, Companions) over a store in
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
#include <string>
#include <vector>

#include "store/kv/memory_key_value_store.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_cluster.h"

namespace es::test {

struct SimWorldOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> nodes = {{"n1", "cpu-avx2:2"}};  // name -> device set
};

class SimWorld {
 public:
  explicit SimWorld(SimWorldOptions options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  SimClient& client() { return *client_; }
  const SimCluster& cluster() const { return *cluster_; }
  const History& history() const { return history_; }
  actors::Instant now();

  void run_for(actors::Instant duration);
  // False: it did not hold within `limit`.
  bool run_until(const std::function<bool()>& holds, actors::Instant limit);

  // A random duration in [least, most], for random faults.
  actors::Instant random_time(actors::Instant least, actors::Instant most);
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  // Incarnations that run now, of whatever job.
  std::vector<Incarnation> running() const;
  void crash_worker(Incarnation incarnation);
  void lose_node(const std::string& name);
  // The machine boots again.
  void return_node(const std::string& name);
  // The node and its workers lose the rest of the world, or find it again, and go on meanwhile.
  void cut_node(const std::string& name);
  void heal_node(const std::string& name);
  void stop_head();
  void start_head();

 private:
  bool step();
  void start_node(const std::string& name);

  SimWorldOptions options_;
  std::mt19937_64 random_;
  std::shared_ptr<SimCluster> cluster_ = std::make_shared<SimCluster>();
  std::shared_ptr<store::MemoryKeyValueStore> disk_ =
      std::make_shared<store::MemoryKeyValueStore>();
  History history_;

  caf::actor_system_config config_;
  std::optional<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor gateway_, head_, client_actor_;
  std::map<std::string, caf::actor> nodes_;
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> cut_links_;
  std::optional<SimClient> client_;
};

}  // namespace es::test
