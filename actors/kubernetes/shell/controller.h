#pragma once
// Controller: brings the objects of one EasyScaleCluster, and its jobs at the head, to what the
// objects of its namespace say. It looks at everything whenever an object has changed, and once a
// second, and does what is missing; it keeps nothing that another controller would need.
//
// Of several controllers the holder of the Lease CLUSTER-controller acts (core/lease.h).
//
// Fails    A request that the server or the head does not answer is made again at the next look. A
//          job trains on meanwhile.
// Threads  run() uses the thread that calls it; each ObjectWatch has one.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/agents/core/agent_planner.h"
#include "actors/kubernetes/core/job_steps.h"
#include "actors/kubernetes/core/lease.h"
#include "actors/kubernetes/shell/head_link.h"
#include "actors/kubernetes/shell/object_watch.h"

namespace es::actors::kubernetes {

struct ControllerOptions {
  std::string cluster;   // name of the EasyScaleCluster
  std::string identity;  // unique among the controllers: the name of the pod
};

// When the controller ends. `requested` is asked before each wait and whenever `fd` becomes
// readable, and leaves `fd` unreadable.
struct StopRequest {
  int fd = -1;
  std::function<bool()> requested;
};

class Controller {
 public:
  Controller(InCluster place, ControllerOptions options, ConnectHead connect);
  ~Controller();
  // Works until it is to stop, and gives the Lease back then.
  void run(const StopRequest& stop);

 private:
  using Clock = std::chrono::steady_clock;
  using Objects = std::map<std::string, Json>;
  struct JobMemory {
    JobReport report;
    std::int64_t refused_generation = -1;  // that the head will never accept
    Clock::time_point ask_again{};         // not before
    Json written;                          // the last status
    std::string told;                      // the last event
  };

  void wait(const StopRequest& stop);
  void look();
  bool keep_lease();
  void give_lease_back();
  Status work();
  Status look_after(const Json& cluster, const Objects& jobs, const Objects& pods);

  Status make_objects(const Json& cluster);
  Status apply_once(const std::string& path, const Json& object);
  // Error: no head answers.
  Result<HeadFacts> ask_head(const Json& cluster, const Objects& pods);

  Status look_after_job(const Json& object, const HeadFacts* head, const std::string& first_type);
  Status carry_out(const Json& job, const JobOrder& order, JobMemory& memory);
  Status put_finalizer(const Json& job, bool present);
  Status find_job(const Json& job, JobMemory& memory);
  Status submit(const Json& job, JobMemory& memory);
  Status stop_job(const JobOrder& order, const std::string& job, JobMemory& memory);
  Status write_job_status(const Json& job, const HeadJob* known, bool has_head, JobMemory& memory);
  void tell(const Json& job, const Json& status, JobMemory& memory);

  Status look_after_agents(const Json& cluster, const std::vector<const Json*>& jobs,
                           const std::vector<const Json*>& pods, const HeadFacts& head);
  void say_trouble(const Status& status);

  std::string core_path(const std::string& kind) const;  // of /api/v1 in the namespace
  std::string own_path(const std::string& kind) const;   // of the group of EasyScale

  const InCluster place_;
  const ControllerOptions options_;
  const ConnectHead connect_;
  KubernetesApi api_;
  LeaseHolder lease_;
  bool acts_ = false;
  int changed_fd_ = -1;
  std::unique_ptr<HeadLink> link_;
  std::map<std::string, JobMemory> jobs_;         // by the uid of the object
  std::map<std::string, AgentPlanner> planners_;  // by group
  std::map<std::string, std::string> groups_;     // the limits that a planner was made with
  std::map<std::string, std::string> applied_;    // what was applied, by path
  Json cluster_status_written_;
  std::string trouble_;
  // Last: their threads use the members above.
  std::unique_ptr<ObjectWatch> clusters_, job_objects_, pods_;
};

}  // namespace es::actors::kubernetes
