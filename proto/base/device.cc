#include "proto/base/device.h"

#include <algorithm>
#include <charconv>

namespace es {
namespace {

constexpr const char* kPlacementForm =
    "TYPE:COUNT[+TYPE:COUNT...], e.g. cpu-avx512:4 or cpu-scalar:1+cpu-avx2:1";
constexpr const char* kStagesForm =
    "PLACEMENT@STEPS[,PLACEMENT@STEPS...], e.g. cpu-avx512:4@20,cpu-avx2:2@20";
// The longest text that is parsed is that of a job file, 256 KiB. With these bounds the counts of
// such a text, all of one type, add up to less than 2^32, and its steps to less than 2^64.
constexpr std::uint64_t kCountMax = 100'000;
constexpr std::uint64_t kStepsMax = 1'000'000'000'000;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A decimal number in [1, max]; 0 if the text is anything else.
std::uint64_t parse_positive(std::string_view text, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // A sign, spaces and an overflow are refused too. Leading zeros are allowed.
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value <= max ? value : 0;
}

bool is_type_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string quoted(std::string_view text) {
  return '"' + std::string(text) + '"';
}

// Returns "; a device type is written in lower case: v100" if upper case is the only error in the
// name, otherwise an empty text.
std::string case_hint(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower == name || !is_type_name(lower)) return {};
  return "; a device type is written in lower case: " + lower;
}

}  // namespace

DeviceType device_type(CpuClass cpu_class) {
  switch (cpu_class) {
    case CpuClass::kScalar:
      return {"cpu-scalar"};
    case CpuClass::kAvx2:
      return {"cpu-avx2"};
    case CpuClass::kAvx512:
      return {"cpu-avx512"};
  }
  return {};
}

Result<CpuClass> parse_cpu_class(std::string_view name) {
  for (const CpuClass c : {CpuClass::kScalar, CpuClass::kAvx2, CpuClass::kAvx512})
    if (device_type(c).name == name) return c;
  return usage_error("unknown device type " + quoted(name) +
                     "; allowed: cpu-scalar, cpu-avx2, cpu-avx512");
}

bool cpu_supports(CpuClass cpu_class) {
#if defined(__x86_64__)
  switch (cpu_class) {
    case CpuClass::kScalar:
      // The scalar kernels use fused multiply-add too.
      return __builtin_cpu_supports("fma");
    case CpuClass::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuClass::kAvx512:
      // All four, because the kernels are compiled for all of them, and the first processors with
      // AVX-512 had only F of them. The builtin also asks whether the system saves the wide
      // registers.
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  }
  return false;
#else
  return cpu_class == CpuClass::kScalar;
#endif
}

std::vector<CpuClass> supported_cpu_classes() {
  std::vector<CpuClass> classes;
  // kScalar is listed without a check, so that the list is never empty.
  for (const CpuClass c : {CpuClass::kScalar, CpuClass::kAvx2, CpuClass::kAvx512})
    if (c == CpuClass::kScalar || cpu_supports(c)) classes.push_back(c);
  return classes;
}

std::uint32_t DeviceSet::total() const {
  std::uint32_t sum = 0;
  for (const DeviceCount& c : counts) sum += c.count;
  return sum;
}

std::uint32_t DeviceSet::count_of(const DeviceType& type) const {
  for (const DeviceCount& c : counts)
    if (c.type == type) return c.count;
  return 0;
}

void DeviceSet::add(const DeviceType& type, std::uint32_t count) {
  if (count == 0) return;
  // The counts ascend by type, and each type occurs once.
  auto at = std::lower_bound(counts.begin(), counts.end(), type,
                             [](const DeviceCount& c, const DeviceType& t) { return c.type < t; });
  if (at != counts.end() && at->type == type) {
    at->count += count;
  } else {
    counts.insert(at, {type, count});
  }
}

void DeviceSet::remove(const DeviceType& type, std::uint32_t count) {
  ES_CHECK(count_of(type) >= count);
  for (DeviceCount& c : counts)
    if (c.type == type) c.count -= count;
  // Equal sets must have equal lists, because == and text() look at nothing else.
  std::erase_if(counts, [](const DeviceCount& c) { return c.count == 0; });
}

bool DeviceSet::contains(const DeviceSet& other) const {
  return std::all_of(other.counts.begin(), other.counts.end(),
                     [&](const DeviceCount& c) { return count_of(c.type) >= c.count; });
}

std::string DeviceSet::text() const {
  std::string out;
  for (const DeviceCount& c : counts)
    out += (out.empty() ? "" : "+") + c.type.name + ":" + std::to_string(c.count);
  return out;
}

Result<DeviceSet> parse_device_set(std::string_view text) {
  DeviceSet set;
  for (const std::string_view part : split(text, '+')) {
    const std::string_view item = trim(part);
    const std::size_t colon = item.find(':');
    const std::string_view name = trim(item.substr(0, colon));
    const std::uint64_t count = colon == std::string_view::npos
                                    ? 0
                                    : parse_positive(trim(item.substr(colon + 1)), kCountMax);
    if (!is_type_name(name) || count == 0)
      return usage_error("placement " + quoted(text) + ": " + quoted(item) +
                         " is not TYPE:COUNT with COUNT from 1" + case_hint(name) +
                         "; allowed: " + kPlacementForm);
    // A type that is named twice is no error; its counts are added.
    set.add({std::string(name)}, static_cast<std::uint32_t>(count));
  }
  return set;
}

Result<std::vector<Stage>> parse_stages(std::string_view text) {
  std::vector<Stage> stages;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t at = part.rfind('@');
    const std::uint64_t steps =
        at == std::string_view::npos ? 0 : parse_positive(trim(part.substr(at + 1)), kStepsMax);
    if (steps == 0)
      return usage_error("stages " + quoted(text) + ": " + quoted(trim(part)) +
                         " is not PLACEMENT@STEPS with STEPS from 1; allowed: " + kStagesForm);
    Result<DeviceSet> devices = parse_device_set(trim(part.substr(0, at)));
    if (!devices) return devices.error();
    stages.push_back({*std::move(devices), steps});
  }
  return stages;
}

std::string stages_text(const std::vector<Stage>& stages) {
  std::string out;
  for (const Stage& s : stages)
    out += (out.empty() ? "" : ",") + s.devices.text() + "@" + std::to_string(s.steps);
  return out;
}

}  // namespace es
