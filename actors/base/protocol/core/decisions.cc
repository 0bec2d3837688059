#include "actors/base/protocol/core/decisions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string_view>

namespace es::actors::protocol {
namespace {

constexpr const char* kForm = "plateau %d %016" PRIx64 " %" PRIu32 " cooldown %" PRIu32
                              " reductions %" PRIu32 "\nstop %d %016" PRIx64 " %" PRIu32 "\n";
constexpr const char* kRead = "plateau %d %" SCNx64 " %" SCNu32 " cooldown %" SCNu32
                              " reductions %" SCNu32 " stop %d %" SCNx64 " %" SCNu32;

std::uint64_t bits_of(const Trend& trend) {
  return std::bit_cast<std::uint64_t>(trend.best.value_or(0.0));
}

Trend trend_of(int has_best, std::uint64_t bits, std::uint32_t bad) {
  return {has_best == 1 ? std::optional(std::bit_cast<double>(bits)) : std::nullopt, bad};
}

// Every comparison with NaN is false, so NaN is not better than anything. Torch begins with an
// infinite best value, which no threshold changes.
bool is_better(double value, const std::optional<double>& best, bool falls, double least) {
  if (!best) return value == value;
  return falls ? value < least : value > least;
}

void count(Trend& trend, double value, bool better) {
  if (better) trend.best = value;
  trend.bad = better ? 0 : trend.bad + 1;
}

void decide_rate(const ScheduleSpec& s, Decisions& d, double value) {
  const bool down = falls(s.metric);
  const double best = d.plateau.best.value_or(0.0);
  const double sign = down ? -1.0 : 1.0;
  // The products and sums of torch, in its order.
  const double least =
      s.threshold_mode == "rel" ? best * (1.0 + sign * s.threshold) : best + sign * s.threshold;
  count(d.plateau, value, is_better(value, d.plateau.best, down, least));
  if (d.cooldown > 0) {
    --d.cooldown;
    d.plateau.bad = 0;
  }
  if (d.plateau.bad <= s.patience) return;
  ++d.reductions;
  d.cooldown = s.cooldown;
  d.plateau.bad = 0;
}

void decide_stop(const StopSpec& s, Decisions& d, double value) {
  const bool down = falls(s.metric);
  const double best = d.stop.best.value_or(0.0);
  count(d.stop, value,
        is_better(value, d.stop.best, down, down ? best - s.min_delta : best + s.min_delta));
}

}  // namespace

std::string encode(const Decisions& d) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), kForm, d.plateau.best.has_value() ? 1 : 0,
                bits_of(d.plateau), d.plateau.bad, d.cooldown, d.reductions,
                d.stop.best.has_value() ? 1 : 0, bits_of(d.stop), d.stop.bad);
  return text.data();
}

Result<Decisions> decode_decisions(const std::string& text) {
  int has_plateau = 0, has_stop = 0;
  std::uint64_t plateau = 0, stop = 0;
  std::uint32_t plateau_bad = 0, stop_bad = 0;
  Decisions d;
  const int read = std::sscanf(text.c_str(), kRead, &has_plateau, &plateau, &plateau_bad,
                               &d.cooldown, &d.reductions, &has_stop, &stop, &stop_bad);
  d.plateau = trend_of(has_plateau, plateau, plateau_bad);
  d.stop = trend_of(has_stop, stop, stop_bad);
  // There is one form only, so a number that is too large or a text that goes on is found here.
  if (read == 8 && encode(d) == text) return d;
  return usage_error("the state of the decisions by evaluations cannot be read");
}

bool falls(const std::string& metric) {
  constexpr std::array<std::string_view, 4> kFalling = {"loss", "perplexity", "mse", "mae"};
  return std::ranges::find(kFalling, metric) != kFalling.end();
}

Decisions decide(const JobSpec& spec, Decisions before, const MetricValue& value) {
  if (spec.schedule.kind == "plateau")
    decide_rate(spec.schedule, before, value(spec.schedule.metric));
  if (!spec.stop.metric.empty()) decide_stop(spec.stop, before, value(spec.stop.metric));
  return before;
}

bool stops(const JobSpec& spec, const Decisions& decisions) {
  return !spec.stop.metric.empty() && decisions.stop.bad >= spec.stop.patience;
}

bool is_best(const JobSpec& spec, double value, const std::optional<double>& best) {
  return is_better(value, best, falls(spec.checkpoint.keep_best), best.value_or(0.0));
}

}  // namespace es::actors::protocol
