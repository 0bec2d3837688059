#pragma once
// JobLists: the answers to ListJobs. Jobs that are not over are asked; what is known of a job that
// is over does not change, so it is kept.
//
// One list is made at a time. Clients that ask meanwhile wait for the next one and are answered
// together. They do not get the running one, because it may be older than something that such a
// client knows already, for example that its job was accepted.
//
// Ownership: it reads other parts of the actor and changes nothing. Used by one actor.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_filter.h"
#include "actors/head/cluster_scheduler/core/job_table.h"
#include "actors/head/cluster_scheduler/shell/listed_job.h"
#include "actors/head/cluster_scheduler/shell/replies.h"

namespace es::actors {

class JobLists {
 public:
  struct Ports {
    // Asks a job; see JobActors::describe().
    std::function<void(const JobId&, std::optional<std::chrono::seconds> patience,
                       std::function<void(const Msg<wire::JobDetails>&)> on_details,
                       std::function<void()> on_error)>
        describe;
    // What is known of a job that is over; null: it has to be asked.
    std::function<std::shared_ptr<const ListedJob>(const JobId&)> end_of;
    // A job was asked.
    std::function<void(const JobId&, const std::shared_ptr<const ListedJob>&)> asked;
    std::function<std::string()> warning;    // of the state directory
    std::function<std::uint64_t()> unix_ms;  // the date
  };
  JobLists(const JobTable& jobs, const ClusterCore& core, const Replies& replies, Ports ports)
      : jobs_(jobs), core_(core), replies_(replies), ports_(std::move(ports)) {}

  // ListJobs, a request of a client. It is answered later, or refused: it is malformed, or a job
  // does not answer.
  void list(const Inbound& request);

 private:
  struct Client {
    Inbound request;
    cluster::JobFilter filter;
  };
  // A list that is being made.
  struct Listing {
    std::vector<Client> clients;
    // In the order of submission; null: not known yet, or the job was removed meanwhile.
    std::vector<std::shared_ptr<const ListedJob>> jobs;
    std::size_t missing = 0;
    bool failed = false;
  };
  using Found = std::vector<const ListedJob*>;
  using States = std::map<std::string, std::uint64_t>;  // number of jobs

  void gather();
  void ask(const std::shared_ptr<Listing>& listing, std::size_t place, const JobId& job);
  void one_less(Listing& listing);
  void fail(Listing& listing);
  void answer(const Listing& listing);
  Msg<wire::JobList> list_for(const Listing& listing, const cluster::JobFilter& filter,
                              const access::Identity* who) const;
  std::pair<Found, States> matching(const Listing& listing, const cluster::JobFilter& filter,
                                    const access::Identity* who) const;
  void end();

  const JobTable& jobs_;
  const ClusterCore& core_;
  const Replies& replies_;
  const Ports ports_;
  bool gathers_ = false;         // a Listing is being made
  std::vector<Client> waiting_;  // clients that the next Listing answers
};

}  // namespace es::actors
