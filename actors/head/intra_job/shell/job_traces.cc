#include "actors/head/intra_job/shell/job_traces.h"

#include <utility>
#include <variant>
#include <vector>

#include "actors/base/gateway/core/host_id.h"
#include "actors/base/gateway/shell/visit.h"
#include "actors/base/tracing/wire/trace_codec.h"

namespace es::actors {
namespace {

bool trains(JobState state) {
  return state == JobState::kRunning || state == JobState::kRescaling;
}

struct WorkerAnswer {
  std::uint64_t trace = 0;
  std::optional<tracing::ClockExchange> exchange;
  std::optional<intra_job::TraceBegan> began;
};

WorkerAnswer answer_of(wire::TraceAnswer::Reader r, Instant returned) {
  WorkerAnswer answer{.trace = r.getTrace()};
  if (r.getBegan()) {
    answer.began = intra_job::TraceBegan{r.getStep()};
    return answer;
  }
  const auto time = [](std::uint64_t ns) { return Instant(static_cast<std::int64_t>(ns)); };
  // A time of the worker may be any number, and sums of it must not overflow.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61;
  if (r.getSentNs() < kMost && r.getReceivedNs() < kMost && r.getAnsweredNs() < kMost)
    answer.exchange = tracing::ClockExchange{.sent = time(r.getSentNs()),
                                             .received = time(r.getReceivedNs()),
                                             .answered = time(r.getAnsweredNs()),
                                             .returned = returned};
  return answer;
}

void put(wire::TraceWorker::Builder b, const tracing::TraceRequest& request, Instant now) {
  b.setTrace(request.trace);
  b.setSentNs(static_cast<std::uint64_t>(now.count()));
  b.setFirstStep(request.first);
  b.setEndStep(request.end);
  b.setStop(request.stop);
  b.setAllOperators(request.all_operators);
  b.setPeak(request.peak);
}

}  // namespace

Status JobTraces::check(std::uint32_t steps, bool wait) const {
  if (steps < 1 || steps > intra_job::kTracedStepsMax)
    return usage_error("steps = " + std::to_string(steps) + ": allowed is 1 to " +
                       std::to_string(intra_job::kTracedStepsMax));
  const JobState state = needs_.core.state();
  if (is_over(state)) return refused("the job has ended, so there are no steps to trace");
  if (!trains(state) && !wait)
    return refused(std::string("the job is ") + state_name(state) +
                   ", so there are no steps to trace");
  if (trace_) return refused("the job is being traced already; try again when that is over");
  return {};
}

void JobTraces::on_request(const Inbound& inbound) {
  const ClientRequest client = request_of(inbound);
  intra_job::TraceOptions options{.last_version = needs_.config.last_version,
                                  .now = needs_.clock.real(),
                                  .unix_ms = needs_.clock.unix_ms()};
  std::uint64_t stop = 0;
  const auto wait = visit<wire::TraceJob>(inbound, [&](wire::TraceJob::Reader r) {
    stop = r.getStop();
    options.steps = r.getSteps();
    options.all_operators = r.getAllOperators();
    options.peak = r.getPeak();
    return r.getWait();
  });
  if (!wait) return answers_.refuse(client, wait.error());
  if (stop > 0) {
    if (client_.number == stop) client_gone(client.client);
    return answers_.answer<wire::Done>(client, [](wire::Done::Builder) {});
  }
  if (const Status ok = check(options.steps, *wait); !ok.ok())
    return answers_.refuse(client, ok.error());
  options.number = needs_.numbers.next();
  client_ = client;
  trace_.emplace(options);
  if (trains(needs_.core.state())) ask_members();
}

// The members of the placement that trains, or is about to.
void JobTraces::ask_members() {
  std::vector<intra_job::TraceMember> members;
  const auto& workers = needs_.core.fleet().workers();
  for (const protocol::Member& member : needs_.core.members())
    if (const auto at = workers.find(member.incarnation); at != workers.end())
      members.push_back({member.incarnation, at->second.device, member.host_id == host_id()});
  perform(trace_->members(members, needs_.clock.real()));
}

void JobTraces::on_answer(const Inbound& inbound) {
  const Instant returned = needs_.clock.real();
  const Incarnation worker = inbound.frame->envelope.sender;
  if (inbound.from != worker_peer(worker)) return;
  const auto answer = visit<wire::TraceAnswer>(
      inbound, [&](wire::TraceAnswer::Reader r) { return answer_of(r, returned); });
  if (!answer) return needs_.log.write(inbound.from + ": " + answer.error().message);
  if (!runs(answer->trace)) return stop_worker(inbound.from, answer->trace);
  perform(trace_->answered(worker, answer->exchange, answer->began));
}

void JobTraces::on_part(const Inbound& inbound) {
  const Incarnation worker = inbound.frame->envelope.sender;
  if (inbound.from != worker_peer(worker)) return;
  const auto read = visit<wire::TracePart>(
      inbound, [](wire::TracePart::Reader r) { return std::pair(r.getTrace(), r.getLast()); });
  if (!read) return needs_.log.write(inbound.from + ": " + read.error().message);
  const auto [number, last] = *read;
  if (!runs(number)) return last ? void() : stop_worker(inbound.from, number);
  if (!trace_->takes_part(worker)) return;
  answers_.pass_on(client_, inbound.frame, worker);
  if (last) trace_->last_part(worker);
  perform({});
}

// A worker records for a head that has died, or for a client that has gone.
void JobTraces::stop_worker(const PeerId& worker, std::uint64_t trace) {
  const auto message = Msg<wire::TraceWorker>::build({.job = job_}, [&](auto b) {
    b.setTrace(trace);
    b.setStop(true);
  });
  needs_.mail.to_peer(worker, message.frame());
}

void JobTraces::message_arrived() {
  if (trace_) message_begin_ = needs_.clock.real();
}

void JobTraces::sends(const intra_job::SendWorker& effect) {
  if (!trace_) return;
  if (const auto* prepare = std::get_if<protocol::Prepare>(effect.message.get()))
    trace_->round_begins(prepare->stamp.generation, needs_.clock.real());
  if (const auto* go = std::get_if<protocol::Go>(effect.message.get())) {
    trace_->round_ends(go->stamp.generation, needs_.clock.real());
    // New members are asked before their Go, so their first step can be traced.
    ask_members();
  }
}

void JobTraces::ledger_line(Version version) {
  if (trace_) trace_->ledger_line(version, message_begin_, needs_.clock.real());
}

void JobTraces::state_changed(JobState state) {
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
  perform({});
}

void JobTraces::job_ended(JobState state) {
  if (!trace_) return;
  trace_->no_workers(std::string("the job is ") + state_name(state));
  perform({});
}

void JobTraces::worker_gone(Incarnation worker, const std::string& why) {
  if (trace_) perform(trace_->gone(worker, why.substr(0, why.find('\n'))));
}

void JobTraces::client_gone(const PeerId& client) {
  if (trace_ && client == client_.client) perform(trace_->stop());
}

std::optional<Instant> JobTraces::next_tick() const {
  return trace_ ? trace_->next_tick() : std::nullopt;
}

void JobTraces::tick() {
  if (trace_) perform(trace_->tick(needs_.clock.real()));
}

// Sends the requests, and ends the trace if it is over.
void JobTraces::perform(const intra_job::TraceSends& sends) {
  for (const intra_job::TraceSend& send : sends) {
    const auto message = Msg<wire::TraceWorker>::build(
        {.job = job_}, [&](auto b) { put(b, send.request, needs_.clock.real()); });
    needs_.mail.to_peer(worker_peer(send.to), message.frame());
  }
  if (trace_->finished()) finish();
}

void JobTraces::finish() {
  const Envelope envelope = answers_.envelope(client_);
  const tracing::ProcessTrace head = trace_->head();
  const tracing::Trace summary = trace_->summary();
  const std::uint64_t number = trace_->number();
  trace_.reset();
  for (const tracing::TracePiece& piece :
       tracing::pieces_of(number, std::nullopt, head.spans, head.dropped))
    needs_.mail.to_peer(client_.client, tracing::encode(envelope, piece));
  needs_.mail.to_peer(client_.client, tracing::encode_end(envelope, summary));
}

}  // namespace es::actors
