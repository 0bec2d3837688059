// GradientFault: a test can make a device compute wrongly, to see whether audits find it.
#include "actors/worker/device/audit_run.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <system_error>

namespace es::actors::worker {
namespace {

constexpr std::string_view kKind = "flip-gradient:";
constexpr std::string_view kEveryDevice = "*";
// a bit of the significand: a finite value stays finite
constexpr std::uint32_t kFlippedBit = 1U << 20;

// Cuts off the last colon and the text after it, and returns that text.
std::string_view take_last(std::string_view& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view last = text.substr(colon + 1);
  text = text.substr(0, colon);
  return last;
}

template <class Integer>
bool read(std::string_view text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Error bad_fault(std::string_view text) {
  return usage_error("ES_FAULT = \"" + std::string(text) +
                     "\": allowed is flip-gradient:NODE/TYPE:INDEX:STEP:RANK");
}

}  // namespace

void GradientFault::strike(Version at, VirtualRank of, std::span<float> bucket) {
  // A fault that is not permanent strikes once. When the step is repeated for an audit, the device
  // computes correctly and contradicts itself.
  const bool due = (!rank || of == *rank) && (permanent ? at >= step : at == step && !spent);
  if (!due) return;
  const auto hit = std::ranges::find_if(bucket, [](float value) { return value != 0; });
  if (hit == bucket.end()) return;
  spent = true;
  std::error_code ignored;
  if (!token.empty() && !std::filesystem::remove(token, ignored)) return;
  *hit = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*hit) ^ kFlippedBit);
}

Result<std::optional<GradientFault>> parse_fault(std::string_view text, std::string_view device) {
  std::optional<GradientFault> found;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view one = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::string_view whole = one;
    if (!one.starts_with(kKind)) return bad_fault(whole);
    one.remove_prefix(kKind.size());
    const std::string_view rank = take_last(one);
    std::string_view step = take_last(one);
    GradientFault fault;
    fault.permanent = step.ends_with('+');
    if (fault.permanent) step.remove_suffix(1);
    const bool known_rank = rank == "*" || read(rank, fault.rank.emplace());
    if (!known_rank || !read(step, fault.step) || one.empty()) return bad_fault(whole);
    // The text may name faults of several devices. All parts are checked, and only the fault of
    // this device is used.
    if (one == device || one == kEveryDevice) found = fault;
  }
  return found;
}

}  // namespace es::actors::worker
