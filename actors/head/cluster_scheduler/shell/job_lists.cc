#include "actors/head/cluster_scheduler/shell/job_lists.h"

#include <algorithm>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/protocol/core/turn_text.h"
#include "actors/base/protocol/wire/shared_body.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(10);

Result<cluster::JobFilter> filter_of(const Inbound& inbound) {
  return visit<wire::ListJobs>(inbound, [](wire::ListJobs::Reader r) {
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

void JobLists::list(const Inbound& request) {
  auto filter = filter_of(request);
  if (!filter) return replies_.refuse(request, filter.error());
  waiting_.push_back({request, *std::move(filter)});
  if (!gathers_) gather();
}

void JobLists::gather() {
  gathers_ = true;
  auto listing = std::make_shared<Listing>();
  listing->clients = std::exchange(waiting_, {});
  // The jobs answer in any order. Each writes its answer to its place in the submit order.
  listing->jobs.resize(jobs_.in_order().size());
  std::size_t next = 0;
  // An answer comes later than the end of this function.
  for (const auto& [number, job] : jobs_.in_order()) {
    const std::size_t place = next++;
    listing->jobs[place] = ports_.end_of(job);
    if (listing->jobs[place] == nullptr) ask(listing, place, job);
  }
  if (listing->missing == 0) answer(*listing);
}

void JobLists::ask(const std::shared_ptr<Listing>& listing, std::size_t place, const JobId& job) {
  ++listing->missing;
  ports_.describe(
      job, kAnswerTimeout,
      [this, listing, place, job](const Msg<wire::JobDetails>& details) {
        listing->jobs[place] = listed(details);
        ports_.asked(job, listing->jobs[place]);
        one_less(*listing);
      },
      [this, listing, job] {
        // It was removed meanwhile.
        if (!jobs_.contains(job)) return one_less(*listing);
        fail(*listing);
      });
}

void JobLists::one_less(Listing& listing) {
  if (--listing.missing == 0 && !listing.failed) answer(listing);
}

// The first job without an answer refuses the whole list. The others of this list change nothing
// any more.
void JobLists::fail(Listing& listing) {
  if (std::exchange(listing.failed, true)) return;
  for (const Client& client : listing.clients)
    replies_.refuse(client.request, failure("a job does not answer"));
  end();
}

// Clients with the same question share one encoded body.
void JobLists::answer(const Listing& listing) {
  std::map<std::pair<std::string, cluster::JobFilter>, Msg<wire::JobList>> lists;
  for (const Client& client : listing.clients) {
    const access::Identity* who = client_of(client.request);
    const std::pair key(who == nullptr ? std::string() : who->tenant, client.filter);
    auto list = lists.find(key);
    if (list == lists.end()) list = lists.emplace(key, list_for(listing, client.filter, who)).first;
    replies_.send(
        client.request.from,
        with_envelope(list->second.frame(), {.request = client.request.frame->envelope.request}));
  }
  end();
}

// The jobs that the list contains, and how many it would contain of each state.
std::pair<JobLists::Found, JobLists::States> JobLists::matching(const Listing& listing,
                                                                const cluster::JobFilter& filter,
                                                                const access::Identity* who) const {
  Found found;
  States states;
  cluster::JobFilter of_any_state = filter;
  of_any_state.state.clear();
  const std::uint64_t now = ports_.unix_ms();
  for (const auto& job : listing.jobs) {
    if (job == nullptr) continue;
    const cluster::JobFacts facts{job->id,     job->name, job->state,
                                  job->tenant, job->over, job->ended_unix_ms};
    if (!matches(facts, of_any_state, who, now)) continue;
    ++states[job->state];
    if (matches(facts, filter, who, now)) found.push_back(job.get());
  }
  if (filter.newest_first) std::reverse(found.begin(), found.end());
  return {std::move(found), std::move(states)};
}

Msg<wire::JobList> JobLists::list_for(const Listing& listing, const cluster::JobFilter& filter,
                                      const access::Identity* who) const {
  const auto [found, states] = matching(listing, filter, who);
  const std::size_t begin = std::min<std::size_t>(found.size(), filter.offset);
  const std::size_t rest = found.size() - begin;
  const std::size_t count = filter.limit == 0 ? rest : std::min<std::size_t>(rest, filter.limit);
  // A job knows what it needs, and not what else keeps it waiting.
  const auto waits = core_.waits([&](const JobId& job) {
    return who == nullptr || who->tenant.empty() || jobs_.tenant_of(job) == who->tenant;
  });
  return Msg<wire::JobList>::build({}, [&](wire::JobList::Builder b) {
    b.setWarning(ports_.warning());
    b.setTotal(found.size());
    auto jobs = b.initJobs(static_cast<unsigned>(count));
    for (unsigned i = 0; i < count; ++i) {
      const ListedJob& job = *found[begin + i];
      jobs.setWithCaveats(i, job.details.view()->getInfo());
      if (const auto wait = waits.find(job.id); wait != waits.end() && job.state == "queued")
        jobs[i].setWaitingFor(std::string(kTurn) + wait->second.what + wait->second.when);
    }
    auto counts = b.initStates(static_cast<unsigned>(states.size()));
    unsigned next = 0;
    for (const auto& [state, jobs_in_state] : states) {
      counts[next].setState(state);
      counts[next++].setJobs(jobs_in_state);
    }
  });
}

void JobLists::end() {
  gathers_ = false;
  if (!waiting_.empty()) gather();
}

}  // namespace es::actors
