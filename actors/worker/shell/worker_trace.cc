// The part of WorkerActor that traces: it tells WorkerTrace what happens, and sends what that
// decides.
#include <unistd.h>

#include <caf/all.hpp>

#include "actors/base/log/log.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/tracing/wire/trace_codec.h"
#include "actors/worker/shell/worker_actor.h"
#include "proto/messages.h"

namespace es::actors {

using tracing::SpanKind;
using tracing::WorkerTrace;

void WorkerState::on_trace(const Inbound& inbound) {
  const Instant received = now();
  const auto message = Msg<wire::TraceWorker>::from_frame(inbound.frame);
  if (!message) return count_refused(inbound.from, message.error().message);
  std::uint64_t sent_ns = 0;
  const auto request = message->decode([&](wire::TraceWorker::Reader r) {
    sent_ns = r.getSentNs();
    return tracing::TraceRequest{.trace = r.getTrace(),
                                 .first = r.getFirstStep(),
                                 .end = r.getEndStep(),
                                 .stop = r.getStop(),
                                 .all_operators = r.getAllOperators(),
                                 .peak = r.getPeak()};
  });
  if (!request) return count_refused(inbound.from, request.error().message);
  const WorkerTrace::Answer answer = trace_->on(*request, received);
  // A worker without a device has nothing to record, and has told the head so.
  if (device_ && answer == WorkerTrace::Answer::kBegin)
    self_->send(device_, TraceDevice{request->trace, request->all_operators, request->peak});
  if (device_ && answer == WorkerTrace::Answer::kEnd) self_->send(device_, TraceDevice{});
  if (request->stop) return;
  const auto reply = Msg<wire::TraceAnswer>::build(stamped(), [&](wire::TraceAnswer::Builder b) {
    b.setTrace(request->trace);
    b.setSentNs(sent_ns);
    b.setReceivedNs(static_cast<std::uint64_t>(received.count()));
    b.setAnsweredNs(static_cast<std::uint64_t>(now().count()));
  });
  self_->send(gateway_, Outbound{kHeadPeer, reply.frame()});
  // This worker may have passed the steps already.
  send_trace(WorkerTrace::Send::kIfDue);
}

void WorkerState::on_traced(const DeviceTraced& traced) {
  if (traced.trace != trace_->running()) return;
  tracing::TracedProcess about = traced.about;
  about.pid = static_cast<std::uint64_t>(::getpid());
  trace_->began(traced.trace, std::move(about));
  const auto answer = Msg<wire::TraceAnswer>::build(stamped(), [&](wire::TraceAnswer::Builder b) {
    b.setTrace(traced.trace);
    b.setBegan(true);
    b.setStep(traced.step);
  });
  self_->send(gateway_, Outbound{kHeadPeer, answer.frame()});
}

void WorkerState::note(const worker::StartLocalSteps& effect) {
  trace_->step_begins(effect.step, now());
}

void WorkerState::note(const worker::ApplyUpdate&) {
  trace_->update_begins(now());
}

void WorkerState::note(const worker::UpdateShards&) {
  trace_->update_begins(now());
}

void WorkerState::note(const worker::EngineEvent& event) {
  if (std::holds_alternative<worker::PartSummed>(event)) trace_->part_summed(now());
  if (const auto* applied = std::get_if<worker::UpdateApplied>(&event))
    trace_->committed(applied->line.version - 1, now());
}

void WorkerState::note_exchange(const protocol::PeerMessage& message, Incarnation peer, bool sent,
                                Instant begin) {
  tracing::Span span{.lane = tracing::lane::kExchanges, .begin = begin, .peer = peer.value};
  if (const auto* part = std::get_if<protocol::Contrib>(&message)) {
    span.kind = sent ? SpanKind::kSendPart : SpanKind::kTakePart;
    span.step = part->step;
    span.number = part->bucket;
    span.bytes = part->data.bytes;
  } else if (const auto* sum = std::get_if<protocol::Reduced>(&message)) {
    span.kind = sent ? SpanKind::kSendSum : SpanKind::kTakeSum;
    span.step = sum->step;
    span.number = sum->bucket;
    span.bytes = sum->data.bytes;
  } else {
    return;  // a version for a worker that joins
  }
  span.duration = now() - begin;
  trace_->add(span);
}

void WorkerState::send_trace(WorkerTrace::Send when) {
  const bool runs = trace_->running() != 0;
  for (const tracing::TracePiece& piece : trace_->take(now(), when))
    self_->send(gateway_, Outbound{kHeadPeer, tracing::encode(stamped(), piece)});
  if (runs && trace_->running() == 0 && device_) self_->send(device_, TraceDevice{});
}

void WorkerState::send_trace_after(const worker::EngineEvent& event) {
  const auto* applied = std::get_if<worker::UpdateApplied>(&event);
  if (applied == nullptr) return;
  const bool over = applied->line.version == options_.last_version;
  send_trace(over ? WorkerTrace::Send::kLast : WorkerTrace::Send::kIfDue);
}

}  // namespace es::actors
