#include "actors/base/tracing/core/chrome_json.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "proto/base/text.h"

namespace es::actors::tracing {
namespace {

// Not "quoted": with a variable the compiler would also find std::quoted.
std::string json_string(const std::string& text) {
  std::string json = "\"";
  for (const char c : is_utf8(text) ? text : escaped(text)) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      json += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    json += code;
  }
  return json + '"';
}

// Nanoseconds as microseconds, exactly.
std::string micros(Instant time) {
  const std::int64_t ns = time.count();
  const std::int64_t magnitude = std::abs(ns);
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "",
                static_cast<long long>(magnitude / 1000), static_cast<long long>(magnitude % 1000));
  return text;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", std::isfinite(value) ? value : 0.0);
  return text;
}

const char* category(SpanKind kind) {
  switch (kind) {
    case SpanKind::kSlice:
      return "slice";
    case SpanKind::kOperator:
      return "operator";
    case SpanKind::kBatchWait:
    case SpanKind::kGradientWait:
      return "wait";
    case SpanKind::kReduce:
    case SpanKind::kSendPart:
    case SpanKind::kSendSum:
    case SpanKind::kTakePart:
    case SpanKind::kTakeSum:
      return "exchange";
    case SpanKind::kUpdate:
    case SpanKind::kCommit:
    case SpanKind::kLedger:
      return "commit";
    case SpanKind::kLoadBatch:
      return "loader";
    case SpanKind::kRound:
    case SpanKind::kLoad:
      return "round";
    default:
      return "step";
  }
}

// The sender, the receiver, the step, the bucket, and whether it is a sum.
using Transfer = std::tuple<std::uint64_t, std::uint64_t, Version, std::uint32_t, bool>;
struct Arrow {
  const Span* sent = nullptr;
  std::size_t sender = 0;
};

bool is_sending(SpanKind kind) {
  return kind == SpanKind::kSendPart || kind == SpanKind::kSendSum;
}
bool is_taking(SpanKind kind) {
  return kind == SpanKind::kTakePart || kind == SpanKind::kTakeSum;
}
Transfer transfer_of(const Span& span, Incarnation own) {
  const bool sends = is_sending(span.kind);
  return {sends ? own.value : span.peer, sends ? span.peer : own.value, span.step, span.number,
          span.kind == SpanKind::kSendSum || span.kind == SpanKind::kTakeSum};
}

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace) {}

  std::string text() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + other_data() + ",\"traceEvents\":[";
    for (std::size_t i = 0; i < trace_.processes.size(); ++i) describe(i);
    for (std::size_t i = 0; i < trace_.processes.size(); ++i)
      for (const Span& span : trace_.processes[i].spans) add(i, span);
    add_arrows();
    return text_ + "\n]}\n";
  }

 private:
  // Process 1 is the head.
  static std::string place(std::size_t process, std::uint16_t lane) {
    return "\"pid\":" + std::to_string(process + 1) + ",\"tid\":" + std::to_string(lane + 1);
  }

  std::string time(std::size_t process, Instant at) const {
    return micros(at - trace_.processes[process].clock.ahead - trace_.zero);
  }

  void event(const std::string& fields) {
    text_ += (first_ ? "\n{" : ",\n{") + fields + "}";
    first_ = false;
  }

  std::string process_name(const ProcessTrace& process) const {
    if (process.worker == Incarnation{}) return "head";
    return "worker " + std::to_string(process.worker.value) + " on " + process.device.text();
  }

  std::string other_data() const {
    std::string json = "{\"job\":" + json_string(trace_.job) +
                       ",\"first_step\":" + std::to_string(trace_.first) +
                       ",\"end_step\":" + std::to_string(trace_.end) +
                       ",\"zero_unix_ms\":" + std::to_string(trace_.zero_unix_ms) +
                       ",\"note\":" + (trace_.note.empty() ? "null" : json_string(trace_.note)) +
                       ",\"processes\":[";
    for (std::size_t i = 0; i < trace_.processes.size(); ++i) {
      const ProcessTrace& p = trace_.processes[i];
      json += std::string(i == 0 ? "" : ",") + "{\"pid\":" + std::to_string(i + 1) +
              ",\"name\":" + json_string(process_name(p)) +
              ",\"system_pid\":" + (p.about.pid == 0 ? "null" : std::to_string(p.about.pid)) +
              ",\"same_clock\":" + (p.clock.same_clock ? "true" : "false") +
              ",\"clock_ahead_us\":" + micros(p.clock.ahead) +
              ",\"clock_error_us\":" + micros(p.clock.error) +
              ",\"dropped_spans\":" + std::to_string(p.dropped) +
              ",\"missing\":" + (p.missing.empty() ? "null" : json_string(p.missing)) + "}";
    }
    return json + "]}";
  }

  void describe(std::size_t i) {
    const ProcessTrace& process = trace_.processes[i];
    const auto meta = [&](std::uint16_t lane, const char* what, const std::string& args) {
      event("\"ph\":\"M\"," + place(i, lane) + ",\"name\":\"" + what + "\",\"args\":{" + args +
            "}");
    };
    std::string name = process_name(process);
    if (!process.missing.empty()) name += " (spans are missing: " + process.missing + ")";
    if (process.dropped > 0) name += " (" + std::to_string(process.dropped) + " spans dropped)";
    meta(0, "process_name", "\"name\":" + json_string(name));
    meta(0, "process_sort_index", "\"sort_index\":" + std::to_string(i));
    std::set<std::uint16_t> lanes;
    for (const Span& span : process.spans) lanes.insert(span.lane);
    for (const std::uint16_t lane : lanes) {
      meta(lane, "thread_name", "\"name\":" + json_string(lane_name(lane)));
      meta(lane, "thread_sort_index", "\"sort_index\":" + std::to_string(lane));
    }
    if (process.dropped > 0) drop_mark(i);
  }

  // Shows where the recording ended because there was no more room.
  void drop_mark(std::size_t i) {
    const Span* last = nullptr;
    for (const Span& span : trace_.processes[i].spans)
      if (last == nullptr || span.end() > last->end()) last = &span;
    if (last == nullptr) return;
    event("\"ph\":\"i\",\"s\":\"p\"," + place(i, last->lane) + ",\"ts\":" + time(i, last->end()) +
          ",\"name\":\"" + std::to_string(trace_.processes[i].dropped) +
          " spans after this were dropped\"");
  }

  void add(std::size_t i, const Span& span) {
    const ProcessTrace& process = trace_.processes[i];
    event("\"ph\":\"X\"," + place(i, span.lane) + ",\"ts\":" + time(i, span.begin) +
          ",\"dur\":" + micros(span.duration) + ",\"cat\":\"" + category(span.kind) +
          "\",\"name\":" + json_string(name_of(span, process.about)) + ",\"args\":{" +
          arguments(span, process.about) + "}");
    // A worker may send several parts of its ranks for one bucket. They arrive in this order.
    if (is_sending(span.kind)) sent_[transfer_of(span, process.worker)].push_back({&span, i});
  }

  static std::string arguments(const Span& span, const TracedProcess& process) {
    std::string args;
    if (belongs_to_step(span.kind) || span.kind == SpanKind::kLoadBatch)
      args = "\"step\":" + std::to_string(span.step);
    const auto with = [&](const char* key, const std::string& value) {
      args += std::string(args.empty() ? "" : ",") + "\"" + key + "\":" + value;
    };
    switch (span.kind) {
      case SpanKind::kSlice:
      case SpanKind::kAudit:
      case SpanKind::kLoadBatch:
        with("est", std::to_string(span.number));
        break;
      case SpanKind::kReduce:
      case SpanKind::kSendPart:
      case SpanKind::kSendSum:
      case SpanKind::kTakePart:
      case SpanKind::kTakeSum:
        with("bucket", std::to_string(span.number));
        with("bytes", std::to_string(span.bytes));
        break;
      case SpanKind::kEvaluate:
      case SpanKind::kLoad:
        with("version", std::to_string(span.step));
        break;
      case SpanKind::kOperator:
        if (span.number < process.operators.size()) {
          const TracedOperator& op = process.operators[span.number];
          with("node", json_string(op.node));
          with("pass", op.backward ? "\"backward\"" : "\"forward\"");
          if (op.flops > 0) with("flops", number(op.flops));
          with("bytes", number(op.bytes));
        }
        break;
      default:
        break;
    }
    return args;
  }

  void add_arrows() {
    std::uint64_t id = 0;
    for (std::size_t i = 0; i < trace_.processes.size(); ++i)
      for (const Span& span : trace_.processes[i].spans) {
        if (!is_taking(span.kind)) continue;
        const auto sent = sent_.find(transfer_of(span, trace_.processes[i].worker));
        if (sent == sent_.end() || sent->second.empty()) continue;
        const Arrow arrow = sent->second.front();
        sent->second.erase(sent->second.begin());
        const std::string what =
            "\"name\":\"gradient\",\"cat\":\"exchange\",\"id\":" + std::to_string(++id);
        event("\"ph\":\"s\"," + what + "," + place(arrow.sender, arrow.sent->lane) +
              ",\"ts\":" + time(arrow.sender, arrow.sent->begin));
        event("\"ph\":\"f\",\"bp\":\"e\"," + what + "," + place(i, span.lane) +
              ",\"ts\":" + time(i, span.begin));
      }
  }

  const Trace& trace_;
  std::string text_;
  bool first_ = true;
  std::map<Transfer, std::vector<Arrow>> sent_;
};

}  // namespace

std::string chrome_json(const Trace& trace) {
  return Writer(trace).text();
}

std::string name_of(const Span& span, const TracedProcess& process) {
  const std::string number = std::to_string(span.number);
  const std::string peer = "worker " + std::to_string(span.peer);
  switch (span.kind) {
    case SpanKind::kSlice:
      return "EST " + number;
    case SpanKind::kOperator:
      if (span.number >= process.operators.size()) return "operator " + number;
      return process.operators[span.number].kind + " " + process.operators[span.number].node;
    case SpanKind::kBatchWait:
      return "wait for a mini-batch";
    case SpanKind::kReduce:
      return "sum bucket " + number;
    case SpanKind::kUpdate:
      return "update";
    case SpanKind::kEvaluate:
      return "evaluation of version " + std::to_string(span.step);
    case SpanKind::kLoad:
      return "load version " + std::to_string(span.step);
    case SpanKind::kAudit:
      return "audit of EST " + number;
    case SpanKind::kStep:
      return "step " + std::to_string(span.step);
    case SpanKind::kLocalSteps:
      return "local steps";
    case SpanKind::kGradientWait:
      return "wait for gradients";
    case SpanKind::kCommit:
      return "commit";
    case SpanKind::kSendPart:
      return "bucket " + number + " to " + peer;
    case SpanKind::kSendSum:
      return "sum of bucket " + number + " to " + peer;
    case SpanKind::kTakePart:
      return "bucket " + number + " of " + peer;
    case SpanKind::kTakeSum:
      return "sum of bucket " + number + " of " + peer;
    case SpanKind::kLoadBatch:
      return "mini-batch of EST " + number + ", step " + std::to_string(span.step);
    case SpanKind::kRound:
      return "round, generation " + number;
    case SpanKind::kLedger:
      return "version " + std::to_string(span.step + 1);
  }
  return "unknown";
}

std::string lane_name(std::uint16_t lane) {
  switch (lane) {
    case lane::kSteps:
      return "steps";
    case lane::kExchanges:
      return "gradient exchange";
    case lane::kDevice:
      return "device";
    case lane::kRounds:
      return "rounds";
    case lane::kLedger:
      return "commits in the ledger";
    default:
      return "loader " + std::to_string(lane - lane::kFirstLoader);
  }
}

}  // namespace es::actors::tracing
