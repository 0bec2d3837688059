// The intra-job scheduler: traces (core/job_trace.h).
#include <caf/all.hpp>

#include "actors/base/gateway/core/host_id.h"
#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/wire/shared_body.h"
#include "actors/base/tracing/wire/trace_codec.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"

namespace es::actors {
namespace {

bool trains(JobState state) {
  return state == JobState::kRunning || state == JobState::kRescaling;
}

}  // namespace

Instant IntraJobState::clock_now() const {
  return self_->clock().now().time_since_epoch();
}

Status IntraJobState::check_trace(std::uint32_t steps, bool wait) const {
  if (steps < 1 || steps > intra_job::kTracedStepsMax)
    return usage_error("steps = " + std::to_string(steps) + ": allowed is 1 to " +
                       std::to_string(intra_job::kTracedStepsMax));
  const JobState state = core_->state();
  if (is_over(state)) return refused("the job has ended, so there are no steps to trace");
  if (!trains(state) && !wait)
    return refused(std::string("the job is ") + state_name(state) +
                   ", so there are no steps to trace");
  if (trace_) return refused("the job is being traced already; try again when that is over");
  return {};
}

void IntraJobState::begin_trace(const Inbound& inbound) {
  const std::uint64_t number = inbound.frame->envelope.request;
  const auto request = Msg<wire::TraceJob>::from_frame(inbound.frame);
  if (!request) return;
  intra_job::TraceOptions options{.last_version = options_.config.last_version,
                                  .now = clock_now(),
                                  .unix_ms = options_.unix_ms()};
  std::uint64_t stop = 0;
  const auto wait = request->decode([&](wire::TraceJob::Reader r) {
    stop = r.getStop();
    options.steps = r.getSteps();
    options.all_operators = r.getAllOperators();
    options.peak = r.getPeak();
    return r.getWait();
  });
  if (!wait) return refuse(inbound.from, number, wait.error());
  if (stop > 0) {
    if (trace_client_.second == stop) trace_client_gone(inbound.from);
    return answer<wire::Done>(inbound.from, number, [](wire::Done::Builder) {});
  }
  if (const Status ok = check_trace(options.steps, *wait); !ok.ok())
    return refuse(inbound.from, number, ok.error());
  options.number = next_command_++;
  trace_client_ = {inbound.from, number};
  trace_.emplace(options);
  if (trains(core_->state())) trace_members();
}

// The members of the placement that trains, or is about to.
void IntraJobState::trace_members() {
  std::vector<intra_job::TraceMember> members;
  for (const protocol::Member& member : core_->members()) {
    const auto at = core_->fleet().workers().find(member.incarnation);
    if (at != core_->fleet().workers().end())
      members.push_back({member.incarnation, at->second.device, member.host_id == host_id()});
  }
  perform(trace_->members(members, clock_now()));
}

void IntraJobState::on_trace_answer(const Inbound& inbound) {
  const Instant returned = clock_now();
  const Incarnation worker = inbound.frame->envelope.sender;
  const auto answer = Msg<wire::TraceAnswer>::from_frame(inbound.frame);
  if (!answer || inbound.from != worker_peer(worker)) return;
  std::uint64_t number = 0;
  std::optional<tracing::ClockExchange> exchange;
  std::optional<intra_job::TraceBegan> began;
  const auto time = [](std::uint64_t ns) { return Instant(static_cast<std::int64_t>(ns)); };
  const auto read = answer->decode([&](wire::TraceAnswer::Reader r) {
    number = r.getTrace();
    if (r.getBegan()) began = intra_job::TraceBegan{r.getStep()};
    // A time of the worker may be any number, and sums of it must not overflow.
    constexpr std::uint64_t kMost = std::uint64_t{1} << 61;
    const bool sane =
        r.getSentNs() < kMost && r.getReceivedNs() < kMost && r.getAnsweredNs() < kMost;
    if (!r.getBegan() && sane)
      exchange = tracing::ClockExchange{.sent = time(r.getSentNs()),
                                        .received = time(r.getReceivedNs()),
                                        .answered = time(r.getAnsweredNs()),
                                        .returned = returned};
    return 0;
  });
  if (!read) return log(inbound.from + ": " + read.error().message);
  if (!trace_ || trace_->number() != number) return stop_trace_of(inbound, number);
  perform(trace_->answered(worker, exchange, began));
}

void IntraJobState::on_trace_part(const Inbound& inbound) {
  const Incarnation worker = inbound.frame->envelope.sender;
  const auto part = Msg<wire::TracePart>::from_frame(inbound.frame);
  if (!part || inbound.from != worker_peer(worker)) return;
  const auto read =
      part->decode([](wire::TracePart::Reader r) { return std::pair(r.getTrace(), r.getLast()); });
  if (!read) return log(inbound.from + ": " + read.error().message);
  const auto [number, last] = *read;
  if (!trace_ || trace_->number() != number) return last ? void() : stop_trace_of(inbound, number);
  if (!trace_->takes_part(worker)) return;
  send_to(trace_client_.first,
          with_envelope(inbound.frame,
                        {.job = options_.job, .sender = worker, .request = trace_client_.second}));
  if (last) trace_->last_part(worker);
  perform(intra_job::TraceSends{});
}

// A worker records for a head that has died, or for a client that has gone.
void IntraJobState::stop_trace_of(const Inbound& inbound, std::uint64_t trace) {
  const auto message =
      Msg<wire::TraceWorker>::build({.job = options_.job}, [&](wire::TraceWorker::Builder b) {
        b.setTrace(trace);
        b.setStop(true);
      });
  send_to(inbound.from, message.frame());
}

void IntraJobState::trace_effect(const intra_job::SendWorker& effect) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(effect.message.get()))
    trace_->round_begins(prepare->stamp.generation, clock_now());
  if (const auto* go = std::get_if<protocol::Go>(effect.message.get())) {
    trace_->round_ends(go->stamp.generation, clock_now());
    // New members are asked before their Go, so their first step can be traced.
    trace_members();
  }
}

void IntraJobState::trace_ledger(Version version) {
  trace_->ledger_line(version, message_begin_, clock_now());
}

void IntraJobState::trace_state(JobState state) {
  if (!trace_) return;
  // A trace may wait for a job that has not begun.
  const bool waits = state == JobState::kPaused || state == JobState::kQueued;
  const std::string why = std::string("the job is ") + state_name(state);
  if (is_over(state))
    trace_->job_ends(why);
  else if (waits && trace_->has_begun())
    trace_->no_workers(why);
  else
    return;
  perform(intra_job::TraceSends{});
}

void IntraJobState::trace_job_ended(JobState state) {
  if (!trace_) return;
  trace_->no_workers(std::string("the job is ") + state_name(state));
  perform(intra_job::TraceSends{});
}

void IntraJobState::trace_gone(Incarnation worker, const std::string& why) {
  if (trace_) perform(trace_->gone(worker, why.substr(0, why.find('\n'))));
}

void IntraJobState::trace_client_gone(const PeerId& client) {
  if (!trace_ || client != trace_client_.first) return;
  const intra_job::TraceSends sends = trace_->stop();
  perform(sends);
}

void IntraJobState::tick_trace() {
  if (trace_) perform(trace_->tick(clock_now()));
}

// Sends the requests, and ends the trace if it is over.
void IntraJobState::perform(const intra_job::TraceSends& sends) {
  for (const intra_job::TraceSend& send : sends) {
    const auto message =
        Msg<wire::TraceWorker>::build({.job = options_.job}, [&](wire::TraceWorker::Builder b) {
          b.setTrace(send.request.trace);
          b.setSentNs(static_cast<std::uint64_t>(clock_now().count()));
          b.setFirstStep(send.request.first);
          b.setEndStep(send.request.end);
          b.setStop(send.request.stop);
          b.setAllOperators(send.request.all_operators);
          b.setPeak(send.request.peak);
        });
    send_to(worker_peer(send.to), message.frame());
  }
  if (!trace_->finished()) return arm_tick();
  const auto [client, request] = trace_client_;
  const Envelope envelope{.job = options_.job, .request = request};
  const tracing::ProcessTrace head = trace_->head();
  const tracing::Trace summary = trace_->summary();
  const std::uint64_t number = trace_->number();
  trace_.reset();
  for (const tracing::TracePiece& piece :
       tracing::pieces_of(number, std::nullopt, head.spans, head.dropped))
    send_to(client, tracing::encode(envelope, piece));
  send_to(client, tracing::encode_end(envelope, summary));
}

}  // namespace es::actors
