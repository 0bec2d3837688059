#include "actors/base/tracing/wire/trace_codec.h"

#include <algorithm>
#include <stdexcept>

#include "proto/text_of.h"

namespace es::actors::tracing {
namespace {

// About 150 years.
constexpr std::uint64_t kTimeMax = std::uint64_t{1} << 62;

Instant time_from(std::uint64_t ns) {
  if (ns > kTimeMax) throw std::invalid_argument("trace: a time is out of range");
  return Instant(static_cast<std::int64_t>(ns));
}

std::uint64_t to_wire(Instant time) {
  return static_cast<std::uint64_t>(std::max(time, Instant{}).count());
}

bool is_known(std::uint16_t kind) {
  switch (static_cast<SpanKind>(kind)) {
    case SpanKind::kSlice:
    case SpanKind::kOperator:
    case SpanKind::kBatchWait:
    case SpanKind::kReduce:
    case SpanKind::kUpdate:
    case SpanKind::kEvaluate:
    case SpanKind::kLoad:
    case SpanKind::kAudit:
    case SpanKind::kStep:
    case SpanKind::kLocalSteps:
    case SpanKind::kGradientWait:
    case SpanKind::kCommit:
    case SpanKind::kSendPart:
    case SpanKind::kSendSum:
    case SpanKind::kTakePart:
    case SpanKind::kTakeSum:
    case SpanKind::kLoadBatch:
    case SpanKind::kRound:
    case SpanKind::kLedger:
      return true;
  }
  return false;
}

void put(wire::TraceSpan::Builder b, const Span& span) {
  b.setBeginNs(to_wire(span.begin));
  b.setDurationNs(to_wire(span.duration));
  b.setStep(span.step);
  b.setKind(static_cast<std::uint16_t>(span.kind));
  b.setLane(span.lane);
  b.setNumber(span.number);
  b.setPeer(span.peer);
  b.setBytes(span.bytes);
}

Span span_from(wire::TraceSpan::Reader r) {
  if (!is_known(r.getKind()))
    throw std::invalid_argument("trace: span of kind " + std::to_string(r.getKind()));
  return {.kind = static_cast<SpanKind>(r.getKind()),
          .lane = r.getLane(),
          .number = r.getNumber(),
          .step = r.getStep(),
          .begin = time_from(r.getBeginNs()),
          .duration = time_from(r.getDurationNs()),
          .peer = r.getPeer(),
          .bytes = r.getBytes()};
}

void put(wire::TraceProcess::Builder b, const TracedProcess& process) {
  b.setPid(process.pid);
  b.setPeakGflops(process.peak_gflops);
  auto operators = b.initOperators(static_cast<unsigned>(process.operators.size()));
  for (unsigned i = 0; i < operators.size(); ++i) {
    const TracedOperator& op = process.operators[i];
    operators[i].setNode(op.node);
    operators[i].setKind(op.kind);
    operators[i].setBackward(op.backward);
    operators[i].setFlops(op.flops);
    operators[i].setBytes(op.bytes);
  }
  auto memory = b.initMemory(static_cast<unsigned>(process.memory.size()));
  for (unsigned i = 0; i < memory.size(); ++i) {
    memory[i].setName(process.memory[i].name);
    memory[i].setLifetime(process.memory[i].lifetime);
    memory[i].setBytes(process.memory[i].bytes);
  }
}

TracedProcess process_from(wire::TraceProcess::Reader r) {
  TracedProcess process{
      .pid = r.getPid(), .operators = {}, .memory = {}, .peak_gflops = r.getPeakGflops()};
  for (const auto op : r.getOperators())
    process.operators.push_back({line_of(op.getNode()), line_of(op.getKind()), op.getBackward(),
                                 op.getFlops(), op.getBytes()});
  for (const auto part : r.getMemory())
    process.memory.push_back(
        {line_of(part.getName()), line_of(part.getLifetime()), part.getBytes()});
  return process;
}

}  // namespace

FramePtr encode(const Envelope& envelope, const TracePiece& piece) {
  return Msg<wire::TracePart>::build(envelope,
                                     [&](wire::TracePart::Builder b) {
                                       b.setTrace(piece.trace);
                                       if (piece.about) put(b.initProcess(), *piece.about);
                                       auto spans =
                                           b.initSpans(static_cast<unsigned>(piece.spans.size()));
                                       for (unsigned i = 0; i < spans.size(); ++i)
                                         put(spans[i], piece.spans[i]);
                                       b.setDropped(piece.dropped);
                                       b.setLast(piece.last);
                                     })
      .frame();
}

Result<TracePiece> decode_piece(const FramePtr& frame) {
  const auto message = Msg<wire::TracePart>::from_frame(frame);
  if (!message) return message.error();
  return message->decode([](wire::TracePart::Reader r) {
    TracePiece piece{.trace = r.getTrace(),
                     .about = {},
                     .spans = {},
                     .dropped = r.getDropped(),
                     .last = r.getLast()};
    if (r.hasProcess()) piece.about = process_from(r.getProcess());
    if (r.getSpans().size() > kSpansOfPart)
      throw std::invalid_argument("trace: a part of " + std::to_string(r.getSpans().size()) +
                                  " spans");
    piece.spans.reserve(r.getSpans().size());
    for (const auto span : r.getSpans()) piece.spans.push_back(span_from(span));
    return piece;
  });
}

FramePtr encode_end(const Envelope& envelope, const Trace& trace) {
  return Msg<wire::TraceEnd>::build(
             envelope,
             [&](wire::TraceEnd::Builder b) {
               b.setFirstStep(trace.first);
               b.setEndStep(trace.end);
               b.setZeroNs(to_wire(trace.zero));
               b.setZeroUnixMs(trace.zero_unix_ms);
               b.setNote(trace.note);
               auto workers = b.initWorkers(static_cast<unsigned>(trace.processes.size()));
               for (unsigned i = 0; i < workers.size(); ++i) {
                 const ProcessTrace& p = trace.processes[i];
                 workers[i].setIncarnation(p.worker.value);
                 workers[i].setNode(p.device.node);
                 workers[i].setDeviceType(p.device.type.name);
                 workers[i].setDeviceIndex(p.device.index);
                 workers[i].setSameClock(p.clock.same_clock);
                 workers[i].setAheadNs(p.clock.ahead.count());
                 workers[i].setErrorNs(to_wire(p.clock.error));
                 workers[i].setMissing(p.missing);
               }
             })
      .frame();
}

Result<Trace> decode_end(const FramePtr& frame) {
  const auto message = Msg<wire::TraceEnd>::from_frame(frame);
  if (!message) return message.error();
  return message->decode([](wire::TraceEnd::Reader r) {
    Trace trace{.job = {},
                .first = r.getFirstStep(),
                .end = r.getEndStep(),
                .zero = time_from(r.getZeroNs()),
                .zero_unix_ms = r.getZeroUnixMs(),
                .note = line_of(r.getNote()),
                .processes = {}};
    for (const auto w : r.getWorkers()) {
      const std::int64_t ahead = w.getAheadNs();
      if (ahead > static_cast<std::int64_t>(kTimeMax) ||
          ahead < -static_cast<std::int64_t>(kTimeMax))
        throw std::invalid_argument("trace: a time is out of range");
      trace.processes.push_back(
          {.worker = {w.getIncarnation()},
           .device = {line_of(w.getNode()), {line_of(w.getDeviceType())}, w.getDeviceIndex()},
           .clock = {w.getSameClock(), Instant(ahead), time_from(w.getErrorNs())},
           .missing = line_of(w.getMissing()),
           .about = {},
           .spans = {}});
    }
    return trace;
  });
}

Result<std::optional<Trace>> TraceAssembly::add(const FramePtr& frame) {
  if (frame->envelope.type == MessageType::kTracePart) {
    auto piece = decode_piece(frame);
    if (!piece) return piece.error();
    ProcessTrace& process = processes_[frame->envelope.sender];
    if (piece->about) process.about = *std::move(piece->about);
    const std::size_t taken = std::min(room_, piece->spans.size());
    room_ -= taken;
    process.spans.insert(process.spans.end(), piece->spans.begin(),
                         piece->spans.begin() + static_cast<std::ptrdiff_t>(taken));
    std::uint64_t& dropped_here = dropped_here_[frame->envelope.sender];
    dropped_here += piece->spans.size() - taken;
    process.dropped = piece->dropped + dropped_here;
    return std::optional<Trace>();
  }
  auto trace = decode_end(frame);
  if (!trace) return trace.error();
  trace->job = frame->envelope.job;
  const auto take = [&](ProcessTrace& process) {
    const auto at = processes_.find(process.worker);
    if (at == processes_.end()) return;
    process.about = std::move(at->second.about);
    process.spans = std::move(at->second.spans);
    process.dropped = at->second.dropped;
    // A worker that had to send before the steps were chosen has sent everything.
    std::erase_if(process.spans, [&](const Span& span) {
      return belongs_to_step(span.kind) && (span.step < trace->first || span.step >= trace->end);
    });
  };
  trace->processes.insert(trace->processes.begin(), ProcessTrace{.clock = {.same_clock = true}});
  for (ProcessTrace& process : trace->processes) take(process);
  return std::optional<Trace>(*std::move(trace));
}

}  // namespace es::actors::tracing
