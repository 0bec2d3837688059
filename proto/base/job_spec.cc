#include "proto/base/job_spec.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace es {
namespace {

constexpr std::uint32_t kMaxP = 1024;
constexpr std::uint32_t kBatchMax = 65'536;
constexpr std::uint64_t kStepsMax = 1'000'000'000'000;
constexpr std::uint32_t kImageSideMax = 4096;

// Collects the first complaint, so that validate() reads as a list of rules.
class Rules {
 public:
  explicit Rules(std::string where) : where_(std::move(where)) {}

  void expect(bool holds, const std::string& field, const std::string& value,
              const std::string& allowed) {
    if (holds || error_) return;
    error_ = usage_error(where_ + ": " + field + " = " + value + ": allowed is " + allowed);
  }
  template <class T>
  void range(const std::string& field, T value, T low, T high) {
    expect(value >= low && value <= high, field, std::to_string(value),
           std::to_string(low) + " to " + std::to_string(high));
  }
  // Rejects NaN too: the comparison is then false.
  void range_fp(const std::string& field, double value, double low, double high) {
    expect(value >= low && value <= high && std::isfinite(value), field, std::to_string(value),
           std::to_string(low) + " to " + std::to_string(high));
  }
  void one_of(const std::string& field, const std::string& value,
              std::initializer_list<const char*> allowed) {
    std::string list;
    for (const char* a : allowed) list += (list.empty() ? "" : ", ") + std::string(a);
    const bool found = std::any_of(allowed.begin(), allowed.end(),
                                   [&](const char* a) { return value == a; });
    expect(found, field, '"' + value + '"', list);
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  std::string where_;
  std::optional<Error> error_;
};

bool is_job_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

void check_data(Rules& rules, const DataSpec& data) {
  rules.one_of("data.kind", data.kind, {"idx", "synthetic"});
  rules.range<std::uint32_t>("data.crop_padding", data.crop_padding, 0, 64);
  if (data.kind == "idx") {
    rules.expect(!data.path.empty(), "data.path", "\"\"", "a directory with the IDX files");
    return;
  }
  rules.range<std::uint32_t>("data.height", data.height, 1, kImageSideMax);
  rules.range<std::uint32_t>("data.width", data.width, 1, kImageSideMax);
  rules.range<std::uint32_t>("data.channels", data.channels, 1, 64);
  rules.range<std::uint64_t>("data.samples", data.samples, 1, 1'000'000'000);
  rules.range<std::uint64_t>("data.eval_samples", data.eval_samples, 0, 1'000'000'000);
}

void check_optimizer(Rules& rules, const JobSpec& spec) {
  rules.range_fp("optimizer.learning_rate", spec.optimizer.learning_rate, 0.0, 1e6);
  rules.range_fp("optimizer.momentum", spec.optimizer.momentum, 0.0, 1.0);
  rules.range_fp("optimizer.weight_decay", spec.optimizer.weight_decay, 0.0, 1e3);
  rules.one_of("schedule.kind", spec.schedule.kind, {"constant", "step", "cosine"});
  rules.range_fp("schedule.gamma", spec.schedule.gamma, 0.0, 1.0);
  rules.range<std::uint64_t>("schedule.warmup_steps", spec.schedule.warmup_steps, 0, kStepsMax);
  if (spec.schedule.kind == "step")
    rules.range<std::uint64_t>("schedule.step_size", spec.schedule.step_size, 1, kStepsMax);
}

void check_resources(Rules& rules, const JobSpec& spec) {
  const ResourceSpec& r = spec.resources;
  rules.range<std::uint32_t>("resources.min_devices", r.min_devices, 1, spec.max_p);
  rules.range<std::uint32_t>("resources.max_devices", r.max_devices, 0, spec.max_p);
  if (r.max_devices != 0)
    rules.expect(r.max_devices >= r.min_devices, "resources.max_devices",
                 std::to_string(r.max_devices),
                 "0 or at least min_devices = " + std::to_string(r.min_devices));
  for (const Stage& stage : spec.stages) {
    rules.expect(stage.devices.total() <= spec.max_p, "stages", '"' + stage.devices.text() + '"',
                 "at most max_p = " + std::to_string(spec.max_p) +
                     " devices in a stage (a device needs an EST)");
    rules.expect(spec.level == DeterminismLevel::kD2 || stage.devices.counts.size() == 1, "stages",
                 '"' + stage.devices.text() + '"',
                 std::string("devices of one type at level ") + level_name(spec.level) +
                     "; a mix of types needs level D2");
  }
}

}  // namespace

const char* level_name(DeterminismLevel level) {
  switch (level) {
    case DeterminismLevel::kD0: return "D0";
    case DeterminismLevel::kD1: return "D1";
    case DeterminismLevel::kD2: return "D2";
  }
  return "?";
}

Result<DeterminismLevel> parse_level(std::string_view text) {
  for (const auto level :
       {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2})
    if (text == level_name(level)) return level;
  return usage_error("level = \"" + std::string(text) + "\": allowed is D1, D2");
}

Status validate(const JobSpec& spec, const std::string& where) {
  Rules rules(where);
  rules.expect(is_job_name(spec.name), "name", '"' + spec.name + '"',
               "1 to 64 letters, digits, '-', '_' or '.'");
  rules.range<std::uint32_t>("max_p", spec.max_p, 1, kMaxP);
  rules.range<std::uint32_t>("batch_size", spec.batch_size, 1, kBatchMax);
  rules.range<std::uint64_t>("steps", spec.steps, 0, kStepsMax);
  rules.range<std::uint64_t>("epochs", spec.epochs, 0, 1'000'000);
  rules.expect(spec.steps != 0 || spec.epochs != 0 || !spec.stages.empty(), "steps", "0",
               "at least 1, or epochs at least 1, or stages");
  rules.expect(spec.level != DeterminismLevel::kD0, "level", "\"D0\"",
               "D1 (one device type) or D2 (any mix)");
  rules.one_of("model.name", spec.model.name, {"small_cnn", "resnet18", "mlp"});
  rules.range<std::uint32_t>("model.width", spec.model.width, 0, 4096);
  rules.range<std::uint32_t>("model.classes", spec.model.classes, 2, 100'000);
  check_data(rules, spec.data);
  check_optimizer(rules, spec);
  check_resources(rules, spec);
  return rules.status();
}

}  // namespace es
