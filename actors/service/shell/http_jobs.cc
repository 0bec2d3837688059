// HttpActor: lists of jobs, single jobs, submission and commands.
#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <set>

#include "actors/base/access/core/requests.h"
#include "actors/base/job_file/client_spec.h"
#include "actors/base/job_file/job_file.h"
#include "actors/service/shell/http_ask.h"
#include "actors/views/job_selection.h"
#include "actors/views/plans_view.h"
#include "actors/views/render_json.h"

namespace es::actors::http {
namespace {

// A list that is younger is shown again: many pages poll, and the jobs are asked once for all. A
// head with very many live jobs needs longer for a list, and spends at most a tenth of its time on
// the same one.
constexpr std::chrono::milliseconds kListAge{300};
constexpr int kListShare = 10;
constexpr std::size_t kListsMax = 64;
constexpr std::chrono::minutes kJobTimeout{10};
constexpr std::chrono::seconds kPlansTimeout{10};
constexpr std::uint64_t kListMax = 1000;
// The jobs that are not over.
constexpr char kLive[] = "live";

}  // namespace

// --- lists

// Pages that poll ask the same again and again, so they share an answer while it is young.
void HttpState::with_jobs(const Caller& caller, const cluster::JobFilter& filter, ListThen then) {
  if (!lists_.contains(filter)) drop_old_lists();
  SharedList& shared = lists_[filter];
  if (shared.list && std::chrono::steady_clock::now() < shared.until) return then(*shared.list);
  shared.readers.emplace_back(caller, std::move(then));
  if (shared.readers.size() == 1) ask_for_jobs(filter);
}

void HttpState::ask_for_jobs(const cluster::JobFilter& filter) {
  post<wire::ListJobs>(
      {},
      [&](wire::ListJobs::Builder b) {
        b.setState(filter.state);
        b.setTenant(filter.tenant);
        b.setSearch(filter.search);
        b.setOffset(filter.offset);
        b.setLimit(filter.limit);
        b.setNewestFirst(filter.newest_first);
      },
      std::chrono::seconds(60),
      [this, filter, asked = std::chrono::steady_clock::now()](const FrameResult& frame) {
        on_job_list(filter, asked, frame ? read_job_list(*frame) : frame.error());
      });
}

void HttpState::on_job_list(const cluster::JobFilter& filter,
                            std::chrono::steady_clock::time_point asked, Result<JobList> list) {
  SharedList& shared = lists_.at(filter);
  const auto readers = std::exchange(shared.readers, {});
  if (!list) {
    for (const auto& [reader, then] : readers) finish(reader, error_response(list.error()));
    return;
  }
  const auto whole = std::make_shared<const JobList>(*std::move(list));
  shared.list = whole;
  shared.text.clear();
  const auto now = std::chrono::steady_clock::now();
  shared.until = std::max(asked + kListAge, now + kListShare * (now - asked));
  // A reader may ask for another list, so the entry is not used any more.
  for (const auto& [reader, then] : readers) then(*whole);
}

// The number of questions is not bounded, so only few answers are kept.
void HttpState::drop_old_lists() {
  const auto now = std::chrono::steady_clock::now();
  const bool all = lists_.size() >= kListsMax;
  std::erase_if(lists_, [&](const auto& entry) {
    return entry.second.readers.empty() && (all || entry.second.until < now);
  });
}

// The jobs that are not over, as far as this reader may see them.
cluster::JobFilter HttpState::live_jobs(const Identity& reader) {
  return {.state = kLive, .tenant = reader.tenant};
}

Result<HttpState::JobList> HttpState::read_job_list(const std::shared_ptr<const Frame>& frame) {
  const auto message = Msg<wire::JobList>::from_frame(frame);
  if (!message) return message.error();
  return message->decode([](wire::JobList::Reader r) {
    JobList list{read_jobs(r), line_of(r.getWarning()), r.getTotal(), {}};
    for (const auto count : r.getStates()) list.states[line_of(count.getState())] = count.getJobs();
    return list;
  });
}

void HttpState::list_jobs(const Caller& caller) {
  const Request& request = caller.request;
  const Status known = check_query(request, {"state", "tenant", "search", "offset", "limit"});
  if (!known.ok()) return finish(caller, error_response(known.error()));
  const std::string state = query_text(request, "state");
  if (!state.empty() && state != kLive && !is_job_state(state))
    return finish(
        caller, error_response(usage_error("query state = \"" + escaped(state) +
                                           "\": allowed are " + kLive + ", " + job_state_list())));
  const auto offset = query_number(request, "offset", 0, std::numeric_limits<std::uint32_t>::max());
  if (!offset) return finish(caller, error_response(offset.error()));
  const auto limit = query_number(request, "limit", 100, kListMax);
  if (!limit) return finish(caller, error_response(limit.error()));
  cluster::JobFilter filter{.state = state,
                            .tenant = query_text(request, "tenant"),
                            .search = query_text(request, "search"),
                            .offset = *offset,
                            .limit = static_cast<std::uint32_t>(*limit),
                            .newest_first = true};
  const std::string& own = caller.identity.tenant;
  // Other tenants have no jobs, as far as this client may know.
  if (!own.empty() && !filter.tenant.empty() && filter.tenant != own)
    return finish(caller, {.body = job_list_json({}, 0, "")});
  if (!own.empty()) filter.tenant = own;
  // Zero would ask the head for all jobs.
  if (filter.limit == 0) {
    filter.limit = 1;
    return with_jobs(caller, filter, [this, caller](const JobList& list) {
      finish(caller, {.body = job_list_json({}, list.total, list.warning)});
    });
  }
  with_jobs(caller, filter, [this, caller, filter](const JobList& list) {
    std::string& text = lists_.at(filter).text;
    if (text.empty()) text = job_list_json(list.jobs, list.total, list.warning);
    finish(caller, {.body = text});
  });
}

// --- one job

// Calls then(job, spec) if the caller may see the job. A job of another tenant is answered like one
// that does not exist, so its name stays unknown.
void HttpState::with_job(const Caller& caller, DetailsThen then) {
  post<wire::DescribeJob>(
      caller.argument, [](wire::DescribeJob::Builder) {}, std::chrono::seconds(60),
      [this, caller, then = std::move(then)](const FrameResult& frame) {
        if (!frame) return finish(caller, error_response(frame.error()));
        const auto message = Msg<wire::JobDetails>::from_frame(*frame);
        if (!message) return finish(caller, error_response(message.error()));
        const auto details = message->decode([](wire::JobDetails::Reader r) {
          return Details{read_job(r.getInfo()), text_of(r.getSpecToml(), "job spec"),
                         read_timeline(r)};
        });
        if (!details) return finish(caller, error_response(details.error()));
        const Status known =
            access::check_job(caller.identity, caller.argument, details->job.tenant);
        if (!known.ok()) return finish(caller, error_response(known.error()));
        then(*details);
      });
}

void HttpState::job_action(const Caller& caller) {
  with_job(caller, [this, caller](const Details& details) {
    const JobView& job = details.job;
    if (caller.request.method == "HEAD" && takes_long(*caller.route)) return finish(caller, {});
    switch (caller.route->action) {
      case Action::kDescribeJob:
        return finish(caller, {.body = details_json(job, details.spec_toml) + "\n"});
      case Action::kReadTimeline:
        return finish(caller, {.body = timeline_json(job, details.timeline)});
      case Action::kFollowJob:
        return follow(caller, job.id);
      case Action::kReadLog:
        return read_log(caller, job);
      case Action::kReadCurve:
        return read_curve(caller, job.id);
      case Action::kReadLedger:
        return read_ledger(caller, job.id);
      case Action::kTraceJob:
      case Action::kProfileJob:
        return trace(caller, job.id);
      case Action::kListPlans:
        return ask<wire::PlanList, wire::ListPlans>(
            caller, job.id, [](wire::ListPlans::Builder) {},
            [id = job.id](wire::PlanList::Reader r) {
              return Response{.body = plans_json(id, read_plans(r)) + "\n"};
            });
      case Action::kExplainJob:
        return explain(caller, details);
      default:
        return change_job(caller, job.id);
    }
  });
}

// The same as `esctl explain`. Jobs of other tenants are no part of it.
void HttpState::explain(const Caller& caller, const Details& details) {
  auto spec = parse_job(details.spec_toml, "the job");
  if (!spec) return finish(caller, error_response(spec.error()));
  const auto facts =
      std::make_shared<ClusterFacts>(ClusterFacts{.job = details.job, .spec = *std::move(spec)});
  facts->now_unix_ms = options_.unix_ms();
  with_jobs(caller, live_jobs(caller.identity), [this, caller, facts](const JobList& list) {
    facts->jobs = list.jobs;
    // A job that is over has no plans, and the rest can be said without them.
    post<wire::ListPlans>(
        facts->job.id, [](wire::ListPlans::Builder) {}, kPlansTimeout,
        [this, caller, facts](const FrameResult& frame) {
          const auto plans = frame ? Msg<wire::PlanList>::from_frame(*frame)
                                   : Result<Msg<wire::PlanList>>(frame.error());
          if (plans)
            if (auto read = plans->decode(read_plans)) facts->plans = *std::move(read);
          explain_with_nodes(caller, facts);
        });
  });
}

void HttpState::explain_with_nodes(const Caller& caller,
                                   const std::shared_ptr<ClusterFacts>& facts) {
  ask<wire::NodeList, wire::ListNodes>(
      caller, {}, [](wire::ListNodes::Builder) {},
      [facts, who = caller.identity](wire::NodeList::Reader r) {
        std::set<std::string> own;
        for (const JobView& job : facts->jobs) own.insert(job.id);
        facts->nodes = read_nodes(r);
        facts->claims = read_claims(r);
        facts->queues = queues_for(read_queues(r), who.tenant);
        if (!who.tenant.empty()) {
          for (NodeView& node : facts->nodes)
            for (DeviceView& device : node.devices)
              if (!device.job.empty() && !own.contains(device.job))
                device.job = access::kOtherTenant;
          for (ClaimView& claim : facts->claims)
            std::erase_if(claim.waits, [&](const auto& wait) { return !own.contains(wait.job); });
        }
        return Response{.body = explanation_json(facts->job, actors::explain(*facts)) + "\n"};
      });
}

void HttpState::change_job(const Caller& caller, const JobId& job) {
  switch (caller.route->action) {
    case Action::kPauseJob:
      return command<wire::PauseJob>(caller, job, [](wire::PauseJob::Builder) {});
    case Action::kRemoveJob:
      return command<wire::RemoveJob>(caller, job, [](wire::RemoveJob::Builder) {});
    case Action::kCancelJob:
      return command<wire::CancelJob>(caller, job, [](wire::CancelJob::Builder) {});
    case Action::kResumeJob: {
      const auto body = read_body(caller.request, {"accept_loss"});
      if (!body) return finish(caller, error_response(body.error()));
      const auto accept = flag_field(*body, "accept_loss");
      if (!accept) return finish(caller, error_response(accept.error()));
      return command<wire::ResumeJob>(
          caller, job, [&](wire::ResumeJob::Builder b) { b.setAcceptLoss(*accept); });
    }
    case Action::kScaleJob: {
      const auto body = read_body(caller.request, {"devices"});
      if (!body) return finish(caller, error_response(body.error()));
      const auto devices = line_field(*body, "devices");
      if (!devices) return finish(caller, error_response(devices.error()));
      return command<wire::ScaleJob>(caller, job,
                                     [&](wire::ScaleJob::Builder b) { b.setDevices(*devices); });
    }
    case Action::kBudgetJob: {
      const auto body = read_body(caller.request, {"budget"});
      if (!body) return finish(caller, error_response(body.error()));
      const auto budget = amount_field(*body, "budget");
      if (!budget) return finish(caller, error_response(budget.error()));
      return command<wire::BudgetJob>(caller, job,
                                      [&](wire::BudgetJob::Builder b) { b.setBudget(*budget); });
    }
    default:
      return checkpoint_job(caller, job);
  }
}

void HttpState::checkpoint_job(const Caller& caller, const JobId& job) {
  const auto body = read_body(caller.request, {"directory"});
  if (!body) return finish(caller, error_response(body.error()));
  const auto directory = line_field(*body, "directory");
  if (!directory) return finish(caller, error_response(directory.error()));
  ask<wire::CheckpointTaken, wire::CheckpointJob>(
      caller, job, [&](wire::CheckpointJob::Builder b) { b.setDirectory(*directory); },
      [job](wire::CheckpointTaken::Reader r) {
        return Response{.body = checkpoint_json(job, read_checkpoint(r)) + "\n"};
      },
      kJobTimeout);
}

// --- submission

void HttpState::submit(const Caller& caller) {
  const auto body = read_body(caller.request, {"spec_toml", "from_checkpoint", "request_id"});
  if (!body) return finish(caller, error_response(body.error()));
  const auto toml = text_field(*body, "spec_toml");
  const auto checkpoint = line_field(*body, "from_checkpoint");
  const auto id = line_field(*body, "request_id");
  for (const auto* field : {&toml, &checkpoint, &id})
    if (!*field) return finish(caller, error_response(field->error()));
  const auto spec = client_spec(caller.identity, *toml, "spec_toml");
  if (!spec) return finish(caller, error_response(spec.error()));
  ask<wire::JobAccepted, wire::SubmitJob>(
      caller, {},
      [&](wire::SubmitJob::Builder b) {
        b.setSpecToml(*spec);
        b.setFromCheckpoint(*checkpoint);
        b.setSubmitter(caller.identity.name);
        // Two tenants may choose the same id. The second one must not get the job of the first.
        b.setRequestId(id->empty() ? "" : "http/" + caller.identity.tenant + "/" + *id);
      },
      [](wire::JobAccepted::Reader r) {
        const std::string job = name_of(r.getJob(), "job");
        return Response{.status = 201,
                        .body = fields_json({{"job", job}}) + "\n",
                        .headers = {{"Location", "/api/v1/jobs/" + job}}};
      },
      kJobTimeout);
}

}  // namespace es::actors::http
