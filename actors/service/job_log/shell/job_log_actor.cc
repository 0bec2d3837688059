#include "actors/service/job_log/shell/job_log_actor.h"

#include <caf/all.hpp>

#include <limits>
#include <utility>

#include "actors/base/log/log.h"
#include "actors/head/switchboard/shell/switchboard_actor.h"
#include "actors/views/ledger_lines.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

using JobLogTick = caf::atom_constant<caf::atom("joblog")>;

constexpr std::chrono::seconds kTickTime{1};
// After a tracker has failed, and for an answer of the head that does not come.
constexpr std::chrono::seconds kTryAgain{10}, kAnswerTime{60};

}  // namespace

void JobLogState::init(caf::stateful_actor<JobLogState>* self, caf::actor switchboard,
                       store::PathRoots roots) {
  self_ = self;
  switchboard_ = std::move(switchboard);
  roots_ = std::move(roots);
  self_->send(switchboard_, RegisterPeer{kJobLogPeer, self_});
  self_->delayed_send(self_, kTickTime, JobLogTick::value);
}

void JobLogState::add(const LogJob& job) {
  jobs_.try_emplace(job.job).first->second.log = job.log;
}

void JobLogState::wait(Logged& logged, Clock::duration time) {
  logged.asked.reset();
  logged.lines.clear();
  logged.due = Clock::now() + time;
}

void JobLogState::tick() {
  const auto now = Clock::now();
  for (auto& [job, logged] : jobs_) {
    if (logged.asked && now - *logged.asked > kAnswerTime) wait(logged, {});
    if (!logged.asked && now >= logged.due)
      ask<wire::DescribeJob>(job, logged, [](wire::DescribeJob::Builder) {});
  }
  self_->delayed_send(self_, kTickTime, JobLogTick::value);
}

template <class Schema, class Fill>
void JobLogState::ask(const JobId& job, Logged& logged, Fill&& fill) {
  logged.request = ++last_request_;
  logged.asked = Clock::now();
  const auto message = Msg<Schema>::build({.job = job, .request = logged.request}, fill);
  self_->send(switchboard_, Outbound{kHeadPeer, message.frame()});
}

void JobLogState::on_inbound(const Inbound& inbound) {
  const std::uint64_t request = inbound.frame->envelope.request;
  const auto at = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return entry.second.asked && entry.second.request == request;
  });
  if (at == jobs_.end()) return;  // the answer comes after its time limit
  switch (inbound.frame->envelope.type) {
    case MessageType::kJobDetails:
      return take_details(at->first, at->second, inbound);
    case MessageType::kLedgerPart:
      return take_part(at->first, at->second, inbound);
    default:
      // The head is about to end, or a part of it does not answer.
      return wait(at->second, kTryAgain);
  }
}

void JobLogState::take_details(const JobId& job, Logged& logged, const Inbound& inbound) {
  const auto message = Msg<wire::JobDetails>::from_frame(inbound.frame);
  const auto details = message ? message->decode([](wire::JobDetails::Reader r) {
    return std::pair(read_job(r.getInfo()), text_of(r.getSpecToml(), "job spec"));
  })
                               : Result<std::pair<JobView, std::string>>(message.error());
  if (!details) return wait(logged, kTryAgain);
  logged.view = details->first;
  if (!logged.tracking) {
    const Status begun = begin(logged, details->second);
    report(job, logged, begun);
    if (!begun.ok()) return wait(logged, kTryAgain);
  }
  ask<wire::ReadLedger>(job, logged, [&](wire::ReadLedger::Builder b) {
    b.setBegin(logged.tracking->next());
    b.setEnd(std::numeric_limits<Version>::max());
  });
}

// The records of a job are begun once, or again until it works.
Status JobLogState::begin(Logged& logged, const std::string& spec_toml) {
  const store::ConfinedThread confined(roots_);
  if (!logged.log.tensorboard.empty())
    ES_RETURN_IF_ERROR(store::check_place(store::RootKind::kCheckpoints, logged.log.tensorboard));
  const auto job = tracked_job(logged.view, spec_toml);
  if (!job) return job.error();
  auto begun = JobTracking::begin(tracking_of(logged.log), *job);
  if (!begun) return begun.error();
  logged.tracking = *std::move(begun);
  return {};
}

void JobLogState::take_part(const JobId& job, Logged& logged, const Inbound& inbound) {
  const auto message = Msg<wire::LedgerPart>::from_frame(inbound.frame);
  const auto next = message ? message->decode([&](wire::LedgerPart::Reader r) {
    for (const auto line : r.getLines()) logged.lines.push_back(ledger_line_from(line));
    return r.getNext();
  })
                            : Result<Version>(message.error());
  if (!next) return wait(logged, kTryAgain);
  const Version have = logged.lines.empty() ? 0 : logged.lines.back().version;
  if (*next > have)
    return ask<wire::ReadLedger>(job, logged, [&](wire::ReadLedger::Builder b) {
      b.setBegin(*next);
      b.setEnd(std::numeric_limits<Version>::max());
    });
  write(job, logged);
}

void JobLogState::write(const JobId& job, Logged& logged) {
  const bool over = is_over(logged.view.state);
  Status done = logged.tracking->add(logged.lines, logged.view.evaluations);
  if (done.ok() && over) done = logged.tracking->end(logged.view.state);
  report(job, logged, done);
  if (done.ok() && over) {
    jobs_.erase(JobId(job));
    return;
  }
  wait(logged, done.ok() ? Clock::duration{} : Clock::duration(kTryAgain));
}

void JobLogState::report(const JobId& job, Logged& logged, const Status& status) {
  if (!status.ok() && !logged.failing)
    log::warning("the curves of the job are not written: " + status.error().message +
                     "; it will be tried again",
                 {.job = job});
  if (status.ok() && logged.failing)
    log::info("the curves of the job are written again", {.job = job});
  logged.failing = !status.ok();
}

caf::behavior job_log_actor(caf::stateful_actor<JobLogState>* self, caf::actor switchboard,
                            store::PathRoots roots) {
  self->state.init(self, std::move(switchboard), std::move(roots));
  return {
      [=](const LogJob& job) { self->state.add(job); },
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](JobLogTick) { self->state.tick(); },
      [](const PeerUp&) {},
      [](const PeerDown&) {},
  };
}

}  // namespace es::actors
