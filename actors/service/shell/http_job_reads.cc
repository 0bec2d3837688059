// HttpActor: what a job has done and does: events, logs, ledgers, traces and curves.
#include <caf/all.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <sstream>

#include "actors/base/tracing/core/chrome_json.h"
#include "actors/base/tracing/wire/trace_codec.h"
#include "actors/service/shell/http_ask.h"
#include "actors/views/log_filter.h"
#include "actors/views/profile_view.h"
#include "actors/views/render_json.h"
#include "proto/base/digest.h"

namespace es::actors::http {
namespace {

constexpr std::chrono::milliseconds kStateAge{500};
constexpr std::size_t kCurvesMax = 256;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
// About 75 MB of JSON.
constexpr std::size_t kTracedSpansMax = 500'000;
constexpr std::uint64_t kTracedStepsMax = 1000;

std::string event_text(const char* name, const std::string& data) {
  return std::string("event: ") + name + "\ndata: " + data + "\n\n";
}

LedgerEntry entry_of(wire::LedgerLine::Reader r) {
  LedgerEntry entry{.version = r.getVersion()};
  for (const std::uint32_t bits : r.getLossBits())
    entry.losses.push_back(std::bit_cast<float>(bits));
  entry.params = Digest{r.getParams().getHigh(), r.getParams().getLow()}.hex();
  if (r.getHasState()) entry.state = Digest{r.getState().getHigh(), r.getState().getLow()}.hex();
  return entry;
}

// The same words as the options of `esctl logs`.
Result<LogFilter> log_filter_of(const Request& request) {
  ES_RETURN_IF_ERROR(check_query(request, {"since", "grep", "level", "worker", "node", "begin"}));
  LogFilter filter{.text = query_text(request, "grep"), .level_min = log::Level::kDebug};
  if (const std::string name = query_text(request, "level"); !name.empty()) {
    const auto level = log::parse_level(name);
    if (!level)
      return usage_error("query level = \"" + escaped(name) +
                         "\": allowed are debug, info, warning, error");
    filter.level_min = *level;
  }
  if (const std::string since = query_text(request, "since"); !since.empty()) {
    const auto time = parse_since(since, std::chrono::system_clock::now());
    if (!time) return time.error();
    filter.since = *time;
  }
  return filter;
}

double mean_of(const std::vector<float>& losses) {
  double sum = 0;
  for (const float loss : losses) sum += double(loss);
  return sum / double(losses.size());
}

}  // namespace

// --- events and logs

// All readers of a job share one stream of the head, which ends with the job.
void HttpState::follow(const Caller& caller, const JobId& job) {
  count(caller.request.method, 200);
  caller.reply->begin_stream({.content_type = "text/event-stream",
                              .body = "retry: 2000\n\n",
                              .headers = {{"Cache-Control", "no-store"}}});
  const auto [at, is_new] = follows_.try_emplace(job);
  Follow& follow = at->second;
  follow.readers.push_back(caller.reply);
  if (!is_new) {
    if (!follow.last.empty()) caller.reply->push(follow.last);
    // While it had no readers, the newest state was kept and not shown.
    return on_show(job);
  }
  post<wire::FollowJob>(
      job, [](wire::FollowJob::Builder b) { b.setInfo(true); }, {},
      [this, job](const FrameResult& frame) { on_follow_event(job, frame); }, true);
}

// A job may make hundreds of steps in a second. Its readers get log lines and changes of its state
// at once, and its progress twice a second.
void HttpState::on_follow_event(const JobId& job, const FrameResult& frame) {
  const auto at = follows_.find(job);
  if (at == follows_.end()) return;
  Follow& follow = at->second;
  if (!frame) return end_follow(job);
  const auto message = Msg<wire::JobEvent>::from_frame(*frame);
  const auto kind = message ? message->decode([](wire::JobEvent::Reader r) { return r.which(); })
                            : Result<wire::JobEvent::Which>(message.error());
  if (!kind || *kind == wire::JobEvent::ENDED) {
    waiting_.erase((*frame)->envelope.request);
    return end_follow(job);
  }
  if (*kind == wire::JobEvent::INFO) {
    const auto state =
        message->decode([](wire::JobEvent::Reader r) { return line_of(r.getInfo().getState()); });
    const bool waits = std::exchange(follow.message, *message).has_value();
    // A change of the state is shown at once.
    if (state && std::exchange(follow.state, *state) != *state) return on_show(job);
    if (!waits) self_->delayed_send(self_, kStateAge, HttpShow{job});
    return;
  }
  const auto line =
      message->decode([](wire::JobEvent::Reader r) { return line_of(r.getLogLine()); });
  if (line) push_all(follow, event_text("log", log_line_json(*line)));
}

void HttpState::push_all(Follow& follow, const std::string& text) {
  std::erase_if(follow.readers, [&](const auto& reader) { return !reader->push(text); });
}

// Shows the newest state of a job to its readers.
void HttpState::on_show(const JobId& job) {
  const auto at = follows_.find(job);
  if (at == follows_.end() || at->second.readers.empty()) return;
  const auto message = std::exchange(at->second.message, std::nullopt);
  if (!message) return;
  const auto event = message->decode(read_event);
  if (!event) return;
  at->second.last = event_text("job", job_line_json(std::get<JobView>(*event)));
  push_all(at->second, at->second.last);
}

void HttpState::end_follow(const JobId& job) {
  on_show(job);
  for (const auto& reader : follows_.at(job).readers) {
    reader->push(event_text("end", "{}"));
    reader->end();
  }
  follows_.erase(job);
}

// The log of one worker, which its node has. It is found by the job while the worker belongs to it.
// The headers say where the answer ends, so that the next one can begin there.
void HttpState::read_worker_log(const Caller& caller, const JobView& job, const LogFilter& filter) {
  const auto worker = query_number(caller.request, "worker", 0, kMost);
  if (!worker) return finish(caller, error_response(worker.error()));
  const auto begin = query_number(caller.request, "begin", 0, kMost);
  if (!begin) return finish(caller, error_response(begin.error()));
  std::string node = query_text(caller.request, "node");
  const auto at = std::ranges::find(job.workers, *worker, &WorkerView::incarnation);
  if (node.empty() && at != job.workers.end()) node = at->node;
  if (node.empty())
    return finish(
        caller,
        error_response(usage_error("query worker = " + std::to_string(*worker) +
                                   ": the job has no such worker now; name its node (node=NAME)")));
  ask<wire::WorkerLog, wire::ReadWorkerLog>(
      caller, job.id,
      [&](wire::ReadWorkerLog::Builder b) {
        b.setWorker(*worker);
        b.setNode(node);
        b.setBegin(*begin);
      },
      [filter](wire::WorkerLog::Reader r) {
        if (const std::string error = line_of(r.getError()); !error.empty())
          return error_response(not_found(error));
        std::istringstream lines(text_of(r.getText(), "log"));
        std::string text;
        for (std::string line; std::getline(lines, line);)
          if (shows(filter, log::parse_job_line(line))) text += line + "\n";
        return Response{.content_type = kText,
                        .body = std::move(text),
                        .headers = {{"Log-End", std::to_string(r.getEnd())},
                                    {"Log-Complete", r.getComplete() ? "true" : "false"}}};
      });
}

void HttpState::read_log(const Caller& caller, const JobView& job) {
  auto filter = log_filter_of(caller.request);
  if (!filter) return finish(caller, error_response(filter.error()));
  if (caller.request.query.contains("worker")) return read_worker_log(caller, job, *filter);
  auto text = std::make_shared<std::string>();
  post<wire::FollowJob>(
      job.id,
      [](wire::FollowJob::Builder b) {
        b.setLogFromStart(true);
        b.setUntilNow(true);
      },
      {},
      [this, caller, text, filter = *std::move(filter)](const FrameResult& frame) {
        if (!frame) return finish(caller, error_response(frame.error()));
        const auto message = Msg<wire::JobEvent>::from_frame(*frame);
        const auto event =
            message ? message->decode(read_event) : Result<JobEventView>(message.error());
        if (event)
          if (const auto* line = std::get_if<LogLine>(&*event)) {
            if (shows(filter, log::parse_job_line(line->text))) *text += line->text + "\n";
            return;
          }
        if (event && std::holds_alternative<JobView>(*event)) return;
        waiting_.erase((*frame)->envelope.request);
        finish(caller, event ? Response{.content_type = kText, .body = std::move(*text)}
                             : error_response(event.error()));
      },
      true);
}

// --- ledgers

void HttpState::read_ledger(const Caller& caller, const JobId& job) {
  const Status known = check_query(caller.request, {"begin", "end"});
  if (!known.ok()) return finish(caller, error_response(known.error()));
  const auto begin = query_number(caller.request, "begin", 0, kMost);
  if (!begin) return finish(caller, error_response(begin.error()));
  const auto end = query_number(caller.request, "end", kMost, kMost);
  if (!end) return finish(caller, error_response(end.error()));
  ask<wire::LedgerPart, wire::ReadLedger>(
      caller, job,
      [&](wire::ReadLedger::Builder b) {
        b.setBegin(*begin);
        b.setEnd(*end);
      },
      [job](wire::LedgerPart::Reader r) {
        std::vector<LedgerEntry> lines;
        for (const auto line : r.getLines()) lines.push_back(entry_of(line));
        return Response{.body =
                            ledger_part_json(job, text_of(r.getSpecToml(), "job spec"),
                                             line_of(r.getStartCheckpoint()), lines, r.getNext())};
      });
}

// The answer follows when the job has made the steps. The head holds the whole trace meanwhile.
void HttpState::trace(const Caller& caller, const JobId& job) {
  const Status known = check_query(caller.request, {"steps"});
  if (!known.ok()) return finish(caller, error_response(known.error()));
  const auto steps = query_number(caller.request, "steps", 20, kTracedStepsMax);
  if (!steps) return finish(caller, error_response(steps.error()));
  const bool profile = caller.route->action == Action::kProfileJob;
  auto assembly = std::make_shared<tracing::TraceAssembly>(kTracedSpansMax);
  post<wire::TraceJob>(
      job,
      [&](wire::TraceJob::Builder b) {
        b.setSteps(static_cast<std::uint32_t>(*steps));
        b.setAllOperators(profile);
        b.setPeak(profile);
      },
      {},
      [this, caller, assembly, profile, number = last_request_ + 1](const FrameResult& frame) {
        const auto trace = frame ? assembly->add(*frame) : frame.error();
        if (trace && !*trace) return;
        traces_.erase(number);
        waiting_.erase(number);
        if (!trace) return finish(caller, error_response(trace.error()));
        finish(caller, {.body = profile ? profile_json(tracing::profile_of(**trace)) + "\n"
                                        : tracing::chrome_json(**trace)});
      },
      true);
  traces_[last_request_] = {job, caller.reply};
}

// A job has one trace at a time, so one whose client has gone would keep others from theirs.
void HttpState::stop_abandoned_traces() {
  for (auto at = traces_.begin(); at != traces_.end();) {
    const std::uint64_t number = at->first;
    const Traced traced = at->second;
    if (!traced.reply->abandoned()) {
      ++at;
      continue;
    }
    at = traces_.erase(at);
    post<wire::TraceJob>(
        traced.job, [&](wire::TraceJob::Builder b) { b.setStop(number); }, std::chrono::seconds(60),
        [](const FrameResult&) {});
  }
}

// A curve is kept, and only the new part of the ledger is read for the next request.
void HttpState::read_curve(const Caller& caller, const JobId& job) {
  if (curves_.size() >= kCurvesMax && !curves_.contains(job)) {
    const auto oldest = std::min_element(
        curves_.begin(), curves_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest->second.readers.empty()) curves_.erase(oldest);
  }
  LossCurve& entry = curves_[job];
  entry.used = last_request_;
  entry.readers.push_back(caller);
  if (entry.readers.size() == 1) continue_curve(job);
}

void HttpState::continue_curve(const JobId& job) {
  post<wire::ReadLedger>(
      job,
      [&](wire::ReadLedger::Builder b) {
        b.setBegin(curves_.at(job).curve.last_version() + 1);
        b.setEnd(std::numeric_limits<std::uint64_t>::max());
      },
      std::chrono::seconds(60),
      [this, job](const FrameResult& frame) { on_curve_part(job, frame); });
}

void HttpState::on_curve_part(const JobId& job, const FrameResult& frame) {
  const auto message = frame ? Msg<wire::LedgerPart>::from_frame(*frame)
                             : Result<Msg<wire::LedgerPart>>(frame.error());
  LossCurve& entry = curves_.at(job);
  const auto next = message ? message->decode([&](wire::LedgerPart::Reader r) {
    for (const auto line : r.getLines())
      if (line.getVersion() > entry.curve.last_version())
        entry.curve.add(line.getVersion(), mean_of(entry_of(line).losses));
    return r.getNext();
  })
                            : Result<std::uint64_t>(message.error());
  if (next && *next > entry.curve.last_version()) return continue_curve(job);
  for (const Caller& reader : std::exchange(entry.readers, {}))
    finish(reader, next ? Response{.body = curve_json(entry.curve)} : error_response(next.error()));
}

}  // namespace es::actors::http
