#include "actors/worker/state/kernel_record.h"

#include <algorithm>

#include "gpu/base/vendor_kernels.h"

namespace es::actors {
namespace {

constexpr std::string_view kLevel = "level ";
constexpr std::string_view kDeviceType = "device_type ";
constexpr std::string_view kLibrary = "library ";
constexpr std::string_view kOperator = "operator ";

// Takes a line "KEYWORD ARGUMENT" off the text; nullopt if the next line is another one.
std::optional<std::string> take(std::string_view& text, std::string_view keyword) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(keyword)) return std::nullopt;
  std::string argument(text.substr(keyword.size(), end - keyword.size()));
  text.remove_prefix(end + 1);
  return argument;
}

// Returns whether the bits of the next step may depend on the kernels of the version before.
// Without a record they may.
bool both_depend(const std::optional<KernelRecord>& saved, DeterminismLevel level) {
  return gpu::allows_vendor(level) && (!saved || gpu::allows_vendor(saved->level));
}

std::string kernels_text(const KernelRecord& record) {
  return (record.operators.empty() ? "canonical kernels" : record.library) + " on " +
         record.device_type.name;
}

// Names the operator at which two records of one library and device type differ.
std::string operator_text(const KernelRecord& record, std::size_t index) {
  return index < record.operators.size() ? ", operator " + record.operators[index]
                                         : ", no further operator";
}

std::string way_out(DeterminismLevel level) {
  return std::string("at level ") + level_name(level) +
         " only the same kernels are allowed, because others give other bits; at level D2 a job "
         "continues with any kernels";
}

// Returns whether the stages of the job use both types. Then a job that recovers on the second type
// from a version of the first does what it would have done undisturbed.
bool is_planned_change(const DeviceType& from, const DeviceType& to,
                       const std::vector<Stage>& stages) {
  const auto names = [&](const DeviceType& type) {
    return std::any_of(stages.begin(), stages.end(),
                       [&](const Stage& s) { return s.devices.count_of(type) > 0; });
  };
  return from != to && names(from) && names(to);
}

Error no_record(DeterminismLevel level, const std::string& where) {
  return refused(where + ": does not say which kernels computed it; " + way_out(level));
}

}  // namespace

KernelRecord kernel_record(const gpu::Engine& engine, DeterminismLevel level) {
  if (!gpu::allows_vendor(level)) return {.level = level, .device_type = {}};
  return {.level = level,
          .device_type = engine.device_type(),
          .library = engine.vendor_library(),
          .operators = engine.vendor_ops()};
}

std::string encode(const KernelRecord& record) {
  std::string text;
  const auto line = [&](std::string_view keyword, const std::string& argument) {
    text.append(keyword).append(argument).append("\n");
  };
  line(kLevel, level_name(record.level));
  if (gpu::allows_vendor(record.level)) line(kDeviceType, record.device_type.name);
  if (!record.operators.empty()) line(kLibrary, record.library);
  for (const std::string& op : record.operators) line(kOperator, op);
  return text;
}

Result<KernelRecord> decode_kernel_record(std::string_view text, const std::string& where) {
  std::string_view rest = text;
  KernelRecord record;
  const auto level = parse_level(take(rest, kLevel).value_or(""));
  if (level) record.level = *level;
  record.device_type.name = take(rest, kDeviceType).value_or("");
  record.library = take(rest, kLibrary).value_or("");
  while (auto op = take(rest, kOperator)) record.operators.push_back(*std::move(op));
  // Also refuses a line that is missing, unknown or out of order, which was skipped above.
  if (!level || encode(record) != text)
    return usage_error(where + ": section " + kKernelsSection +
                       " is not in the form that its format defines");
  return record;
}

Result<std::optional<KernelRecord>> read_kernel_record(const store::CheckpointReader& reader,
                                                       const std::string& where) {
  if (reader.find(kKernelsSection) == nullptr) return std::optional<KernelRecord>();
  const auto bytes = reader.read(kKernelsSection);
  if (!bytes) return bytes.error();
  const auto record =
      decode_kernel_record({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, where);
  if (!record) return record.error();
  return std::optional<KernelRecord>(*record);
}

Status check_kernels(const std::optional<KernelRecord>& saved, const KernelRecord& present,
                     const std::vector<Stage>& stages, const std::string& where) {
  if (!both_depend(saved, present.level)) return {};
  if (!saved) return no_record(present.level, where);
  if (saved->library == present.library && saved->operators == present.operators) {
    // Kernels of a library depend on the device type; canonical kernels do not.
    if (saved->operators.empty() || saved->device_type == present.device_type) return {};
  }
  if (is_planned_change(saved->device_type, present.device_type, stages)) return {};
  // If both texts are equal, only the lists of operators differ, so the first difference is added.
  std::string then = kernels_text(*saved), now = kernels_text(present);
  if (then == now) {
    const auto differing = std::mismatch(saved->operators.begin(), saved->operators.end(),
                                         present.operators.begin(), present.operators.end());
    const auto index = static_cast<std::size_t>(differing.first - saved->operators.begin());
    then += operator_text(*saved, index);
    now += operator_text(present, index);
  }
  return refused(where + ": computed with " + then + "; this worker computes with " + now + "; " +
                 way_out(present.level));
}

Status check_device_types(const std::optional<KernelRecord>& saved, DeterminismLevel level,
                          const std::vector<DeviceType>& types, const std::string& where) {
  if (!both_depend(saved, level)) return {};
  if (!saved) return no_record(level, where);
  if (saved->operators.empty() || types.empty()) return {};
  std::string names;
  for (const DeviceType& type : types) {
    if (type == saved->device_type) return {};
    names += (names.empty() ? "" : ", ") + type.name;
  }
  return refused(where + ": computed with " + kernels_text(*saved) + "; the job may begin on " +
                 names + "; " + way_out(level));
}

}  // namespace es::actors
