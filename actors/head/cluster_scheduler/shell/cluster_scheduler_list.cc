// ClusterScheduler: the answer to ListJobs. Jobs that are not over are asked; what is known of a
// job that is over does not change, so it is kept.
#include <caf/all.hpp>

#include <algorithm>

#include "actors/base/protocol/core/turn_text.h"
#include "actors/base/protocol/wire/shared_body.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(10);

bool is_over_name(const std::string& state) {
  return state == state_name(JobState::kFinished) || state == state_name(JobState::kFailed) ||
         state == state_name(JobState::kCancelled) || state == state_name(JobState::kTimedOut);
}

Result<cluster::JobFilter> filter_of(const Inbound& inbound) {
  const auto request = Msg<wire::ListJobs>::from_frame(inbound.frame);
  if (!request) return request.error();
  return request->decode([](wire::ListJobs::Reader r) {
    return cluster::JobFilter{.state = name_of(r.getState(), "state"),
                              .tenant = name_of(r.getTenant(), "tenant"),
                              .search = name_of(r.getSearch(), "search"),
                              .offset = r.getOffset(),
                              .limit = r.getLimit(),
                              .newest_first = r.getNewestFirst(),
                              .ended_within_ms = r.getEndedWithinMs()};
  });
}

}  // namespace

// Clients that ask while an answer is being made wait for the next one and are answered together.
// They do not get the running answer, because it may be older than something that such a client
// knows already, for example that its job was accepted.
void ClusterSchedulerState::list_jobs(const Inbound& inbound) {
  auto filter = filter_of(inbound);
  if (!filter) return refuse(inbound, filter.error());
  list_waiting_.push_back({inbound, *std::move(filter)});
  if (!listing_) gather_jobs();
}

void ClusterSchedulerState::gather_jobs() {
  listing_ = true;
  auto listing = std::make_shared<Listing>();
  listing->clients = std::exchange(list_waiting_, {});
  // The jobs answer in any order. Each writes its answer to its place in the submit order.
  listing->jobs.resize(submit_order_.size());
  const auto describe = Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {});
  std::size_t next = 0;
  // An answer comes later than the end of this function.
  for (const auto& [number, id] : submit_order_) {
    const std::size_t i = next++;
    const Job& job = jobs_.at(id);
    if (job.end) {
      listing->jobs[i] = job.end;
      continue;
    }
    ++listing->missing;
    self_->request(job.actor, kAnswerTimeout, describe)
        .then(
            [this, listing, i, id = id](const Msg<wire::JobDetails>& details) {
              listing->jobs[i] = listed(details);
              keep_end(id, listing->jobs[i]);
              if (--listing->missing == 0 && !listing->failed) answer_list(*listing);
            },
            [this, listing, id = id](const caf::error&) {
              // It was removed meanwhile.
              if (!jobs_.contains(id)) {
                if (--listing->missing == 0 && !listing->failed) answer_list(*listing);
                return;
              }
              // The first job without an answer refuses the whole list. The others of this list
              // change nothing any more.
              if (std::exchange(listing->failed, true)) return;
              for (const Listing::Client& client : listing->clients)
                refuse(client.request, failure("a job does not answer"));
              end_listing();
            });
  }
  if (listing->missing == 0) answer_list(*listing);
}

std::shared_ptr<const ClusterSchedulerState::Listed> ClusterSchedulerState::listed(
    const Msg<wire::JobDetails>& details) {
  auto view = details.view();
  const wire::JobInfo::Reader info = view->getInfo();
  auto job = std::make_shared<Listed>();
  job->id = info.getId().cStr();
  job->name = info.getName().cStr();
  job->state = info.getState().cStr();
  job->tenant = info.getTenant().cStr();
  job->over = is_over_name(job->state);
  // A warning of a job that is over says that its end is not written yet.
  job->ended_unix_ms = info.getEndedUnixMs();
  job->may_change = !job->over || info.getWarning().size() != 0;
  // A list shows no specs, which are most of the text.
  job->details =
      Msg<wire::JobDetails>::build({}, [&](wire::JobDetails::Builder b) { b.setInfo(info); });
  return job;
}

// Clients with the same question share one encoded body.
void ClusterSchedulerState::answer_list(const Listing& listing) {
  std::map<std::pair<std::string, cluster::JobFilter>, Msg<wire::JobList>> lists;
  for (const Listing::Client& client : listing.clients) {
    const access::Identity* who = client_of(client.request);
    const std::pair key(who == nullptr ? std::string() : who->tenant, client.filter);
    auto list = lists.find(key);
    if (list == lists.end()) list = lists.emplace(key, list_for(listing, client.filter, who)).first;
    self_->send(gateway_,
                Outbound{client.request.from,
                         with_envelope(list->second.frame(),
                                       {.request = client.request.frame->envelope.request})});
  }
  end_listing();
}

Msg<wire::JobList> ClusterSchedulerState::list_for(const Listing& listing,
                                                   const cluster::JobFilter& filter,
                                                   const access::Identity* who) const {
  std::vector<const Listed*> found;
  std::map<std::string, std::uint64_t> states;
  cluster::JobFilter of_any_state = filter;
  of_any_state.state.clear();
  const std::uint64_t now = options_.unix_ms();
  for (const auto& job : listing.jobs) {
    if (job == nullptr) continue;  // removed while the list was made
    const cluster::JobFacts facts{job->id,     job->name, job->state,
                                  job->tenant, job->over, job->ended_unix_ms};
    if (!matches(facts, of_any_state, who, now)) continue;
    ++states[job->state];
    if (matches(facts, filter, who, now)) found.push_back(job.get());
  }
  if (filter.newest_first) std::reverse(found.begin(), found.end());
  const std::size_t begin = std::min<std::size_t>(found.size(), filter.offset);
  const std::size_t rest = found.size() - begin;
  const std::size_t count = filter.limit == 0 ? rest : std::min<std::size_t>(rest, filter.limit);
  // A job knows what it needs, and not what else keeps it waiting.
  const std::map<JobId, std::string> waits = core_->waits([&](const JobId& job) {
    return who == nullptr || who->tenant.empty() || jobs_.at(job).tenant == who->tenant;
  });
  return Msg<wire::JobList>::build({}, [&](wire::JobList::Builder b) {
    b.setWarning(store_warning());
    b.setTotal(found.size());
    auto jobs = b.initJobs(static_cast<unsigned>(count));
    for (unsigned i = 0; i < count; ++i) {
      const Listed& job = *found[begin + i];
      jobs.setWithCaveats(i, job.details.view()->getInfo());
      if (const auto wait = waits.find(job.id); wait != waits.end() && job.state == "queued")
        jobs[i].setWaitingFor(std::string(kTurn) + wait->second);
    }
    auto counts = b.initStates(static_cast<unsigned>(states.size()));
    unsigned next = 0;
    for (const auto& [state, jobs_in_state] : states) {
      counts[next].setState(state);
      counts[next++].setJobs(jobs_in_state);
    }
  });
}

void ClusterSchedulerState::end_listing() {
  listing_ = false;
  if (!list_waiting_.empty()) gather_jobs();
}

}  // namespace es::actors
