// ClusterScheduler: the answer to ListJobs, which asks every job.
#include <caf/all.hpp>

#include "actors/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/protocol/wire/shared_body.h"

namespace es::actors {
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(10);

}  // namespace

// Clients that ask while an answer is being made wait for the next one and are answered together.
// They do not get the running answer, because it may be older than something that such a client
// knows already, for example that its job was accepted.
void ClusterSchedulerState::list_jobs(const Inbound& inbound) {
  list_waiting_.push_back(inbound);
  if (!listing_) gather_jobs();
}

void ClusterSchedulerState::gather_jobs() {
  listing_ = true;
  auto listing = std::make_shared<Listing>();
  listing->clients = std::exchange(list_waiting_, {});
  // The jobs answer in any order. Each writes its answer to its place in the submit order.
  listing->jobs.resize(submit_order_.size());
  listing->missing = submit_order_.size();
  if (submit_order_.empty()) return answer_list(*listing);
  const auto describe = Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {});
  std::size_t next = 0;
  for (const auto& [number, id] : submit_order_)
    self_->request(jobs_.at(id).actor, kAnswerTimeout, describe)
        .then(
            [this, listing, i = next++](const Msg<wire::JobDetails>& details) {
              listing->jobs[i] = details;
              if (--listing->missing == 0 && !listing->failed) answer_list(*listing);
            },
            [this, listing](const caf::error&) {
              // The first job without an answer refuses the whole list. The others of this list
              // change nothing any more.
              if (std::exchange(listing->failed, true)) return;
              for (const Inbound& client : listing->clients)
                refuse(client, failure("a job does not answer"));
              end_listing();
            });
}

// All clients share one encoded body.
void ClusterSchedulerState::answer_list(const Listing& listing) {
  const auto list = Msg<wire::JobList>::build({}, [&](wire::JobList::Builder b) {
    b.setWarning(store_warning());
    auto jobs = b.initJobs(listing.jobs.size());
    for (std::size_t i = 0; i < listing.jobs.size(); ++i)
      jobs.setWithCaveats(i, listing.jobs[i].view()->getInfo());
  });
  for (const Inbound& client : listing.clients)
    self_->send(gateway_,
                Outbound{client.from,
                         with_envelope(list.frame(), {.request = client.frame->envelope.request})});
  end_listing();
}

void ClusterSchedulerState::end_listing() {
  listing_ = false;
  if (!list_waiting_.empty()) gather_jobs();
}

}  // namespace es::actors
