#pragma once
// JobActors: the actors of all jobs: an IntraJobScheduler and a Companion for each job that this
// head runs, a PastJob for each one of an earlier head that is over. Like CAF links: if one of the
// running ones dies, or the owner does, all of them end. A plain link is not used, because the end
// of one link costs time proportional to the number of links.
//
// Ownership: it belongs to the actor `self` and is used by it only.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/companion/shell/companion_actor.h"
#include "actors/head/head_store.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"
#include "actors/head/intra_job/shell/present_nodes.h"
#include "proto/messages.h"

namespace es::actors {

class JobActors {
 public:
  // Replaces the down handler of `self`.
  JobActors(caf::event_based_actor* self, caf::actor gateway, std::shared_ptr<HeadStore> store);

  // A job needs both. The Companion is first.
  void start_companion(const JobId& job, CompanionOptions options);
  void start(IntraJobOptions options);
  void start_past(JobRecord record, const std::filesystem::path& log_file);
  // The end of its actors is expected from now on; it comes when they have answered what they were
  // asked before. REQUIRES: the job has an actor.
  void forget(const JobId& job);

  // REQUIRES (of send, send_all and describe): the jobs have actors.
  template <class... Content>
  void send(const JobId& job, Content&&... content) const {
    self_->send(jobs_.at(job).actor, std::forward<Content>(content)...);
  }
  template <class Content>
  void send_all(const std::set<JobId>& jobs, const Content& content) const {
    for (const JobId& job : jobs) send(job, content);
  }
  // The other jobs of the same model and batch size whose actors run.
  std::set<JobId> similar_to(const JobId& job) const;
  // An effect for a job that is not known is dropped.
  void perform(const cluster::Effect& effect) const;
  // Asks the job what a user sees of it. One of both functions is called later, unless this actor
  // ends: on_error after `patience` (nullopt: no limit), or if the actor of the job ends.
  void describe(const JobId& job, std::optional<std::chrono::seconds> patience,
                std::function<void(const Msg<wire::JobDetails>&)> on_details,
                std::function<void()> on_error) const;

 private:
  struct Job {
    caf::actor actor{};
    caf::actor companion{};     // none if the job was over before this head started
    CompanionOptions shares{};  // what the companion was made with
  };
  void watch();

  caf::event_based_actor* const self_;
  const caf::actor gateway_;
  const std::shared_ptr<HeadStore> store_;
  const std::shared_ptr<PresentNodes> present_nodes_ = std::make_shared<PresentNodes>();
  const Msg<wire::DescribeJob> describe_ =
      Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {});
  std::map<JobId, Job> jobs_;
  // The running companions and intra-job schedulers, by actor id. Shared with a functor that ends
  // them after this object is gone.
  const std::shared_ptr<std::map<caf::actor_id, caf::actor>> children_ =
      std::make_shared<std::map<caf::actor_id, caf::actor>>();
};

}  // namespace es::actors
