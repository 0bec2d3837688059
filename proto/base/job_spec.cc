#include "proto/base/job_spec.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "proto/base/number_text.h"
#include "proto/base/text.h"

namespace es {
namespace {

constexpr std::uint32_t kMaxP = 1024;
constexpr std::uint32_t kBatchMax = 65'536;
constexpr std::uint64_t kStepsMax = 1'000'000'000'000;
constexpr std::uint32_t kImageSideMax = 4096;
constexpr std::uint32_t kIdsMax = 100'000'000;  // users, items, tokens of a vocabulary
// What a text may hold: its canonical form must fit into a job's TOML
// (actors/config/toml_bounds.h).
constexpr std::size_t kTextBytesMax = 4096;
constexpr std::size_t kTypeNameBytesMax = 64;
constexpr std::size_t kTypesMax = 256;
constexpr std::size_t kStagesTextBytesMax = std::size_t{64} << 10;

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
    expect(value >= low && value <= high && std::isfinite(value), field, number_text(value),
           number_text(low) + " to " + number_text(high));
  }
  void one_of(const std::string& field, const std::string& value,
              const std::vector<std::string>& allowed, const std::string& when = "") {
    std::string list;
    for (const std::string& a : allowed) list += (list.empty() ? "" : ", ") + a;
    const bool found = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    expect(found, field, '"' + value + '"', list + when);
  }
  // Texts are shown on terminals and written into one-line records.
  void plain(const std::string& field, const std::string& value, std::size_t bytes_max) {
    expect(
        is_plain(value) && value.size() <= bytes_max, field,
        '"' + escaped(value.substr(0, 60)) + (value.size() > 60 ? "...\"" : "\""),
        "UTF-8 text without control characters, at most " + std::to_string(bytes_max) + " bytes");
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

// The models of one task, and what each may read.
struct TaskRules {
  Task task;
  const char* name;
  std::initializer_list<const char*> models;
  std::initializer_list<const char*> data_kinds;
};

const TaskRules kTasks[] = {
    {Task::kClassification,
     "classification",
     {"small_cnn", "resnet18", "mlp", "resnet34", "resnet50", "resnet101", "resnet152",
      "shufflenetv2", "shufflenetv2_x0_5", "shufflenetv2_x1_5", "shufflenetv2_x2_0", "vgg11",
      "vgg13", "vgg16", "vgg19", "swin_t", "swin_s", "swin_b"},
     {"idx", "cifar10", "image_folder", "synthetic"}},
    {Task::kRecommendation, "recommendation", {"neumf"}, {"ratings", "synthetic"}},
    {Task::kQuestionAnswering,
     "question answering",
     {"bert", "bert_large", "electra", "electra_base", "electra_large"},
     {"squad", "synthetic"}},
    {Task::kDetection, "detection", {"yolov3"}, {"voc", "synthetic"}},
};

const TaskRules& rules_of(Task task) {
  return *std::find_if(std::begin(kTasks), std::end(kTasks),
                       [task](const TaskRules& t) { return t.task == task; });
}

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

void check_model(Rules& rules, const ModelSpec& model) {
  std::vector<std::string> names;
  for (const TaskRules& task : kTasks)
    names.insert(names.end(), task.models.begin(), task.models.end());
  rules.one_of("model.name", model.name, names);
  rules.one_of("model.size", model.size, {"published", "tiny"});
  rules.range<std::uint32_t>("model.width", model.width, 0, 4096);
  const bool has_width =
      model.name == "small_cnn" || model.name == "resnet18" || model.name == "mlp";
  rules.expect(has_width || model.width == 0, "model.width", std::to_string(model.width),
               "0 for " + model.name + " (its sizes are published and tiny)");
  rules.range<std::uint32_t>("model.classes", model.classes,
                             task_of(model) == Task::kDetection ? 1 : 2, 100'000);
  rules.expect(model.dropout == -1.0 || (model.dropout >= 0.0 && model.dropout < 1.0),
               "model.dropout", number_text(model.dropout),
               "0 to below 1, or -1 for the published one");
  rules.expect(model.weights_digest.empty() || Digest::parse(model.weights_digest).has_value(),
               "model.weights_digest", '"' + model.weights_digest + '"',
               "32 lower-case hexadecimal digits");
  rules.expect(model.weights_digest.empty() || !model.weights.empty(), "model.weights", "\"\"",
               "the file that has model.weights_digest");
}

void check_image_shape(Rules& rules, const DataSpec& data) {
  rules.range<std::uint32_t>("data.height", data.height, 1, kImageSideMax);
  rules.range<std::uint32_t>("data.width", data.width, 1, kImageSideMax);
  rules.range<std::uint32_t>("data.channels", data.channels, 1, 64);
}

void check_images(Rules& rules, const DataSpec& data, Task task) {
  rules.one_of("data.normalise", data.normalise, {"half", "imagenet"});
  rules.range<std::uint32_t>("data.crop_padding", data.crop_padding, 0, 64);
  rules.expect(!data.random_resized_crop || data.kind == "image_folder", "data.random_resized_crop",
               "true", "false for data.kind = " + quoted(data.kind));
  if (data.kind == "synthetic" || data.kind == "image_folder" || data.kind == "voc")
    check_image_shape(rules, data);
  if (task == Task::kDetection) rules.range<std::uint32_t>("data.boxes", data.boxes, 1, 1000);
}

// What changes an image has no meaning for anything else; said, not ignored.
void check_no_images(Rules& rules, const DataSpec& data, Task task) {
  const std::string images = std::string(" for ") + task_name(task) + ", which has no images";
  rules.expect(data.crop_padding == 0, "data.crop_padding", std::to_string(data.crop_padding),
               "0" + images);
  rules.expect(!data.flip, "data.flip", "true", "false" + images);
  rules.expect(!data.random_resized_crop, "data.random_resized_crop", "true", "false" + images);
}

void check_data(Rules& rules, const DataSpec& data, Task task) {
  const TaskRules& known = rules_of(task);
  rules.one_of("data.kind", data.kind, {known.data_kinds.begin(), known.data_kinds.end()},
               std::string(" for ") + known.name);
  rules.expect(data.kind == "synthetic" || !data.path.empty(), "data.path", "\"\"",
               "the file or directory of the data");
  if (data.kind == "synthetic") {
    rules.range<std::uint64_t>("data.samples", data.samples, 1, 1'000'000'000);
    rules.range<std::uint64_t>("data.eval_samples", data.eval_samples, 0, 1'000'000'000);
  }
  if (task == Task::kClassification || task == Task::kDetection)
    check_images(rules, data, task);
  else
    check_no_images(rules, data, task);
  if (task == Task::kRecommendation) {
    rules.range<std::uint32_t>("data.users", data.users, 1, kIdsMax);
    rules.range<std::uint32_t>("data.items", data.items, 2, kIdsMax);
    rules.range<std::uint32_t>("data.negatives", data.negatives, 1, 1000);
  }
  if (task == Task::kQuestionAnswering) {
    rules.range<std::uint32_t>("data.tokens", data.tokens, 8, 512);
    rules.range<std::uint32_t>("data.vocabulary", data.vocabulary, 16, kIdsMax);
    rules.expect(data.kind != "squad" || !data.vocabulary_file.empty(), "data.vocabulary_file",
                 "\"\"", "the file of the WordPiece vocabulary");
  }
}

void check_optimizer(Rules& rules, const OptimizerSpec& o) {
  rules.one_of("optimizer.kind", o.kind, {"sgd", "adam", "adamw"});
  rules.range_fp("optimizer.learning_rate", o.learning_rate, 0.0, 1e6);
  rules.range_fp("optimizer.momentum", o.momentum, 0.0, 1.0);
  rules.expect(!o.nesterov || (o.kind == "sgd" && o.momentum > 0.0), "optimizer.nesterov", "true",
               "false, or kind = \"sgd\" with a momentum above 0");
  rules.expect(o.beta1 >= 0.0 && o.beta1 < 1.0, "optimizer.beta1", number_text(o.beta1),
               "0 to below 1");
  rules.expect(o.beta2 >= 0.0 && o.beta2 < 1.0, "optimizer.beta2", number_text(o.beta2),
               "0 to below 1");
  rules.expect(o.epsilon > 0.0 && o.epsilon <= 1.0, "optimizer.epsilon", number_text(o.epsilon),
               "above 0, at most 1");
  rules.range_fp("optimizer.weight_decay", o.weight_decay, 0.0, 1e3);
  rules.range_fp("optimizer.clip_norm", o.clip_norm, 0.0, 1e9);
}

void check_schedule(Rules& rules, const JobSpec& spec) {
  const ScheduleSpec& s = spec.schedule;
  rules.one_of("schedule.kind", s.kind, {"constant", "step", "cosine", "linear"});
  rules.range_fp("schedule.gamma", s.gamma, 0.0, 1.0);
  rules.range<std::uint64_t>("schedule.warmup_steps", s.warmup_steps, 0, kStepsMax);
  if (s.kind == "step") rules.range<std::uint64_t>("schedule.step_size", s.step_size, 1, kStepsMax);
  // The number of steps may be known later, from epochs or stages; then this is checked again.
  if (s.kind == "linear" && spec.steps != 0)
    rules.expect(s.warmup_steps < spec.steps, "schedule.warmup_steps",
                 std::to_string(s.warmup_steps),
                 "less than steps = " + std::to_string(spec.steps) + " for kind = \"linear\"");
}

void check_checkpoint(Rules& rules, const CheckpointSpec& checkpoint) {
  rules.range<std::uint64_t>("checkpoint.every_steps", checkpoint.every_steps, 0, kStepsMax);
  rules.range<std::uint32_t>("checkpoint.keep", checkpoint.keep, 2, 1000);
  rules.expect(checkpoint.every_steps == 0 || !checkpoint.directory.empty(), "checkpoint.directory",
               "\"\"", "the directory for them, which every node can reach");
}

void check_resources(Rules& rules, const JobSpec& spec) {
  const ResourceSpec& r = spec.resources;
  rules.range<std::uint32_t>("resources.min_devices", r.min_devices, 1, spec.max_p);
  rules.range<std::uint32_t>("resources.max_devices", r.max_devices, 0, spec.max_p);
  if (r.max_devices != 0)
    rules.expect(r.max_devices >= r.min_devices, "resources.max_devices",
                 std::to_string(r.max_devices),
                 "0 or at least min_devices = " + std::to_string(r.min_devices));
  rules.range<std::uint32_t>("resources.threads", r.threads, 1, 256);
  rules.range<int>("resources.priority", r.priority, -100, 100);
  rules.expect(r.deadline_seconds >= 0 && r.deadline_seconds <= 1e9, "resources.deadline_seconds",
               number_text(r.deadline_seconds), "0 (none) to 1000000000");
  // auto: the level that it becomes is checked again.
  const bool may_mix = spec.level == DeterminismLevel::kD2 || spec.level == DeterminismLevel::kAuto;
  for (const Stage& stage : spec.stages) {
    rules.expect(stage.devices.total() <= spec.max_p, "stages", quoted(stage.devices.text()),
                 "at most max_p = " + std::to_string(spec.max_p) +
                     " devices in a stage (a device needs an EST)");
    rules.expect(may_mix || stage.devices.counts.size() == 1, "stages",
                 quoted(stage.devices.text()),
                 std::string("devices of one type at level ") + level_name(spec.level) +
                     "; a mix of types needs level D2");
  }
}

// How long the job trains is said once: by steps, by epochs, or by stages. Steps beside stages must
// be their sum, which depends on the checkpoint that the job begins from (admission, job_request).
void check_length(Rules& rules, const JobSpec& spec) {
  rules.range<std::uint64_t>("steps", spec.steps, 0, kStepsMax);
  rules.range<std::uint64_t>("epochs", spec.epochs, 0, 1'000'000);
  rules.expect(spec.steps != 0 || spec.epochs != 0 || !spec.stages.empty(), "steps", "0",
               "at least 1, or epochs at least 1, or stages");
  const std::string epochs = std::to_string(spec.epochs);
  rules.expect(spec.epochs == 0 || spec.steps == 0, "epochs", epochs,
               "0 beside steps = " + std::to_string(spec.steps) + " (give steps or epochs)");
  rules.expect(spec.epochs == 0 || spec.stages.empty(), "epochs", epochs,
               "0 beside stages = " + quoted(stages_text(spec.stages)) +
                   ", which say how many steps there are");
}

void check_texts(Rules& rules, const JobSpec& spec) {
  rules.plain("data.path", spec.data.path, kTextBytesMax);
  rules.plain("data.vocabulary_file", spec.data.vocabulary_file, kTextBytesMax);
  rules.plain("model.weights", spec.model.weights, kTextBytesMax);
  rules.plain("checkpoint.directory", spec.checkpoint.directory, kTextBytesMax);
  rules.plain("resources.tenant", spec.resources.tenant, kTypeNameBytesMax);
  const std::vector<DeviceType>& types = spec.resources.device_types;
  rules.expect(types.size() <= kTypesMax, "resources.device_types",
               std::to_string(types.size()) + " types", "at most " + std::to_string(kTypesMax));
  for (const DeviceType& type : types)
    rules.plain("resources.device_types", type.name, kTypeNameBytesMax);
  const std::size_t stages_bytes = stages_text(spec.stages).size();
  rules.expect(stages_bytes <= kStagesTextBytesMax, "stages",
               "(" + std::to_string(stages_bytes) + " bytes)",
               "at most " + std::to_string(kStagesTextBytesMax) + " bytes");
}

}  // namespace

const char* level_name(DeterminismLevel level) {
  switch (level) {
    case DeterminismLevel::kD0:
      return "D0";
    case DeterminismLevel::kD1:
      return "D1";
    case DeterminismLevel::kD2:
      return "D2";
    case DeterminismLevel::kAuto:
      return "auto";
  }
  return "?";
}

const char* task_name(Task task) {
  return rules_of(task).name;
}

Task task_of(const ModelSpec& model) {
  for (const TaskRules& t : kTasks)
    if (std::find(t.models.begin(), t.models.end(), model.name) != t.models.end()) return t.task;
  return Task::kClassification;
}

Result<DeterminismLevel> parse_level(std::string_view text) {
  for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2,
                           DeterminismLevel::kAuto})
    if (text == level_name(level)) return level;
  return usage_error("level = \"" + std::string(text) + "\": allowed is D0, D1, D2, auto");
}

Status validate(const JobSpec& spec, const std::string& where) {
  Rules rules(where);
  rules.expect(is_job_name(spec.name), "name", '"' + spec.name + '"',
               "1 to 64 letters, digits, '-', '_' or '.'");
  rules.range<std::uint32_t>("max_p", spec.max_p, 1, kMaxP);
  rules.range<std::uint32_t>("batch_size", spec.batch_size, 1, kBatchMax);
  check_length(rules, spec);
  rules.range_fp("auto_cost", spec.auto_cost, 0.0, 100.0);
  const bool vendor_level =
      spec.level == DeterminismLevel::kD0 || spec.level == DeterminismLevel::kD1;
  rules.expect(!spec.tf32 || vendor_level, "tf32", "true",
               std::string("false at level ") + level_name(spec.level) +
                   "; TF32 is what vendor kernels may do at levels D0 and D1");
  check_model(rules, spec.model);
  check_data(rules, spec.data, task_of(spec.model));
  check_optimizer(rules, spec.optimizer);
  check_schedule(rules, spec);
  check_resources(rules, spec);
  check_checkpoint(rules, spec.checkpoint);
  check_texts(rules, spec);
  return rules.status();
}

}  // namespace es
