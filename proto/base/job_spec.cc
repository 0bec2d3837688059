#include "proto/base/job_spec.h"

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "proto/base/job_fields.h"
#include "proto/base/metric_kind.h"
#include "proto/base/number_text.h"
#include "proto/base/service_url.h"
#include "proto/base/text.h"

namespace es {
namespace {

// Longest lists of device types, of groups of parameters and of targets. The canonical text of a
// specification must stay within the limits of a job file (actors/base/job_file/toml_bounds.h).
constexpr std::size_t kTypesMax = 256;
constexpr std::size_t kGroupsMax = 256;
constexpr std::size_t kTargetsMax = 256;

// Keeps the first violation and ignores later ones, so that validate() reads as a list of rules.
class Rules {
 public:
  explicit Rules(std::string where) : where_(std::move(where)) {}

  // All rules are evaluated, also after the first violation. A rule must therefore not rely on an
  // earlier one, and lookups such as task_of() have an answer for wrong names too.
  void expect(bool holds, const std::string& field, const std::string& value,
              const std::string& allowed) {
    if (holds || error_) return;
    error_ = usage_error(where_ + ": " + field + " = " + value + ": allowed is " + allowed);
  }
  template <class Number>
  void range(const std::string& field, Number value, Number low, Number high) {
    expect(value >= low && value <= high, field, std::to_string(value),
           std::to_string(low) + " to " + std::to_string(high));
  }
  void one_of(const std::string& field, const std::string& value,
              const std::vector<std::string>& allowed, const std::string& when = "") {
    std::string list;
    for (const std::string& a : allowed) list += (list.empty() ? "" : ", ") + a;
    const bool found = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    expect(found, field, '"' + value + '"', list + when);
  }
  // Texts are printed on terminals and written into records of one line.
  void plain(const std::string& field, const std::string& value, std::size_t bytes_max) {
    expect(
        // The cut may divide a character. escaped() then shows its bytes.
        is_plain(value) && value.size() <= bytes_max, field,
        '"' + escaped(value.substr(0, 60)) + (value.size() > 60 ? "...\"" : "\""),
        "UTF-8 text without control characters, at most " + std::to_string(bytes_max) + " bytes");
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  std::string where_;
  std::optional<Error> error_;
};

// Checks one field by its row in the table of fields, without regard to other fields.
class FieldRules {
 public:
  FieldRules(Rules& rules, const JobSpec& spec) : rules_(rules), spec_(spec) {}

  template <class Value>
  void operator()(const JobField& field, const Value& value) {
    const bool excluded = field.excluded != nullptr && field.excluded(spec_);
    if (!excluded && (field.applies == nullptr || field.applies(spec_))) check(field, value);
  }

 private:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void check(const JobField& field, Number value) {
    // A double is exact for whole numbers up to 2^53. All bounds are smaller, except that of the
    // seed, which is the largest integer that TOML can write.
    rules_.expect(holds(field, static_cast<double>(value)), std::string(field.key), text_of(value),
                  allowed_text(field));
  }
  void check(const JobField&, bool) {}
  void check(const JobField&, DeterminismLevel) {}
  void check(const JobField& field, const std::string& value) {
    if (field.choices.empty()) return rules_.plain(std::string(field.key), value, field.bytes_max);
    const std::string among = '|' + std::string(field.choices) + '|';
    rules_.expect(among.find('|' + value + '|') != std::string::npos, std::string(field.key),
                  '"' + escaped(value) + '"', allowed_text(field));
  }
  void check(const JobField& field, const std::vector<DeviceType>& types) {
    rules_.expect(types.size() <= kTypesMax, std::string(field.key),
                  std::to_string(types.size()) + " types", allowed_text(field));
    for (const DeviceType& type : types)
      rules_.plain(std::string(field.key), type.name, field.bytes_max);
  }
  void check(const JobField& field, const std::vector<Stage>& stages) {
    check_size(field, stages_text(stages).size());
  }
  void check(const JobField& field, const std::vector<SchedulePoint>& points) {
    check_size(field, schedule_points_text(points).size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool rises = i == 0 ? points[i].step == 0 : points[i].step > points[i - 1].step;
      rules_.expect(rises && static_cast<double>(points[i].step) <= job_fields::kStepsMax &&
                        holds(field, points[i].value),
                    std::string(field.key), schedule_points_text({points[i]}), allowed_text(field));
    }
  }
  void check(const JobField& field, const std::vector<ParameterGroup>& groups) {
    check_groups(field, groups);
  }
  void check(const JobField& field, const std::vector<ClipGroup>& groups) {
    check_groups(field, groups);
  }
  template <class Group>
  void check_groups(const JobField& field, const std::vector<Group>& groups) {
    rules_.expect(groups.size() <= kGroupsMax, std::string(field.key),
                  std::to_string(groups.size()) + " groups", allowed_text(field));
    std::size_t bytes = 0;
    for (const Group& group : groups)
      for (const FieldValue& member : group_field_values(group)) bytes += member.toml.size();
    check_size(field, bytes);
    for (std::size_t i = 0; i < groups.size(); ++i)
      // The row of the table names a field of any group. Errors must say which group it is, so the
      // row is copied and gets another key, which lives as long as the check.
      visit_group_fields(groups[i], [&](JobField member, const auto& value) {
        const std::string key = group_key<Group>(i, member.key);
        member.key = key;
        check(member, value);
      });
  }
  void check(const JobField& field, const std::optional<double>& value) {
    if (value) check(field, *value);
  }
  void check(const JobField& field, const std::vector<std::string>& names) {
    // A list that may be left out may be empty.
    rules_.expect(!names.empty() || field.left_out_at_default, std::string(field.key), "[]",
                  allowed_text(field));
    for (const std::string& name : names) {
      rules_.expect(!name.empty(), std::string(field.key), "[\"\"]", "a list of names");
      rules_.plain(std::string(field.key), name, field.bytes_max);
    }
  }
  void check_size(const JobField& field, std::size_t bytes) {
    rules_.expect(bytes <= field.bytes_max, std::string(field.key),
                  "(" + std::to_string(bytes) + " bytes)",
                  "at most " + std::to_string(field.bytes_max) + " bytes");
  }

  // False for NaN, because every comparison with NaN is false.
  static bool holds(const JobField& field, double value) {
    if (!field.also_means.empty() && value == field.also) return true;
    const bool above = field.low_is_open ? value > field.low : value >= field.low;
    const bool below = field.high_is_open ? value < field.high : value <= field.high;
    return above && below;
  }
  static std::string text_of(double value) { return number_text(value); }
  template <std::integral Integer>
  static std::string text_of(Integer value) {
    return std::to_string(value);
  }

  Rules& rules_;
  const JobSpec& spec_;
};

bool is_job_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

// The models of one task, and the kinds of data that they can read.
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
     {"idx", "cifar10", "image_folder", "webdataset", "synthetic"}},
    {Task::kRecommendation, "recommendation", {"neumf"}, {"ratings", "synthetic"}},
    {Task::kQuestionAnswering,
     "question answering",
     {"bert", "bert_large", "electra", "electra_base", "electra_large"},
     {"squad", "synthetic"}},
    {Task::kDetection, "detection", {"yolov3"}, {"voc", "synthetic"}},
    {Task::kLanguage,
     "language modelling",
     {"gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl", "llama", "llama_1b", "llama_3b"},
     {"tokens", "texts", "synthetic"}},
    {Task::kCaptured,
     "captured model",
     {},
     {"arrays", "tokens", "texts", "python", "idx", "cifar10", "image_folder", "webdataset",
      "ratings", "squad", "voc", "synthetic"}},
};

const TaskRules& rules_of(Task task) {
  return *std::find_if(std::begin(kTasks), std::end(kTasks),
                       [task](const TaskRules& t) { return t.task == task; });
}

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

void check_digest(Rules& rules, const std::string& field, const std::string& digest,
                  const std::string& file) {
  rules.expect(digest.empty() || Digest::parse(digest).has_value(), field + "_digest",
               quoted(digest), "32 lower-case hexadecimal digits");
  rules.expect(digest.empty() || !file.empty(), field, "\"\"",
               "the file that has " + field + "_digest");
}

void check_built_in(Rules& rules, const ModelSpec& model) {
  std::vector<std::string> names;
  for (const TaskRules& task : kTasks)
    names.insert(names.end(), task.models.begin(), task.models.end());
  rules.one_of("model.name", model.name, names);
  const bool has_width =
      model.name == "small_cnn" || model.name == "resnet18" || model.name == "mlp";
  rules.expect(has_width || model.width == 0, "model.width", std::to_string(model.width),
               "0 for " + model.name + " (its sizes are published and tiny)");
  if (task_of(model) != Task::kDetection)
    rules.range<std::uint32_t>("model.classes", model.classes, 2, 100'000);
}

void check_model(Rules& rules, const ModelSpec& model) {
  if (model.file.empty()) check_built_in(rules, model);
  check_digest(rules, "model.file", model.file_digest, model.file);
  check_digest(rules, "model.weights", model.weights_digest, model.weights);
}

// A setting that nothing would read is refused.
void check_lora(Rules& rules, const LoraSpec& lora) {
  const bool given = !(lora == LoraSpec{});
  rules.expect(lora.rank != 0 || !given, "lora.rank", "0",
               "at least 1 beside other keys of [lora]");
  rules.expect(lora.rank == 0 || !lora.targets.empty(), "lora.targets", "[]",
               "a list of at least one name");
  rules.expect(lora.targets.size() <= kTargetsMax, "lora.targets",
               std::to_string(lora.targets.size()) + " names",
               "at most " + std::to_string(kTargetsMax));
}

void check_loss(Rules& rules, const JobSpec& spec) {
  if (job_fields::is_language_model(spec)) return;
  const std::string allowed = "0 for a model that is no built-in language model";
  rules.expect(spec.model.label_smoothing == 0.0, "model.label_smoothing",
               number_text(spec.model.label_smoothing), allowed);
  rules.expect(spec.model.z_loss == 0.0, "model.z_loss", number_text(spec.model.z_loss), allowed);
}

void check_images(Rules& rules, const DataSpec& data) {
  rules.expect(!data.random_resized_crop || job_fields::has_image_files(data),
               "data.random_resized_crop", "true", "false for data.kind = " + quoted(data.kind));
}

// Options that change images have no meaning for other data. They are refused rather than ignored.
void check_no_images(Rules& rules, const DataSpec& data, Task task) {
  const std::string images =
      " for " + (task == Task::kCaptured ? "data.kind = " + quoted(data.kind) : task_name(task)) +
      ", which has no images";
  rules.expect(data.crop_padding == 0, "data.crop_padding", std::to_string(data.crop_padding),
               "0" + images);
  rules.expect(!data.flip, "data.flip", "true", "false" + images);
  rules.expect(!data.random_resized_crop, "data.random_resized_crop", "true", "false" + images);
}

void check_python(Rules& rules, const DataSpec& data) {
  const bool is_python = data.kind == "python";
  rules.expect(is_python || data.path_digest.empty(), "data.path_digest", quoted(data.path_digest),
               "\"\" for data.kind = " + quoted(data.kind));
  check_digest(rules, "data.path", data.path_digest, data.path);
  rules.expect(!is_python || !data.python.empty(), "data.python", "\"\"",
               "the Python interpreter of the dataset");
}

// A built-in language model takes the length of its inputs from the data, and compares its outputs
// with the labels as they are.
void check_language(Rules& rules, const DataSpec& data) {
  rules.expect(data.length > 0, "data.length", "0",
               "the length of a sequence, at least 1, for language modelling");
  rules.expect(data.shifted, "data.shifted", "false",
               "true for language modelling, whose labels are the next tokens");
}

void check_documents(Rules& rules, const DataSpec& data) {
  const bool texts = data.kind == "texts";
  const std::string kind = "for data.kind = " + quoted(data.kind);
  rules.expect(!texts || !data.tokenizer.empty(), "data.tokenizer", "\"\"",
               "the tokenizer.json " + kind);
  rules.expect(data.document_end == -1 || texts || data.kind == "tokens", "data.document_end",
               std::to_string(data.document_end), "-1 " + kind);
  for (const auto& [key, value] : {std::pair{"data.tokenizer", &data.tokenizer},
                                   std::pair{"data.text_field", &data.text_field},
                                   std::pair{"data.append_token", &data.append_token}})
    rules.expect(texts || value->empty(), key, quoted(*value), "\"\" " + kind);
  rules.expect(texts || data.eval_share == 0.0, "data.eval_share", number_text(data.eval_share),
               "0 " + kind);
}

void check_metrics(Rules& rules, const JobSpec& spec) {
  rules.expect(spec.metrics.empty() || !spec.model.file.empty(), "metrics",
               std::to_string(spec.metrics.size()) + " names",
               "none for a built-in model, which has the metrics of its task");
  for (const std::string& name : spec.metrics) {
    rules.expect(parse_metric(name).has_value(), "metrics", quoted(escaped(name)), kMetricNames);
    rules.expect(std::ranges::count(spec.metrics, name) == 1, "metrics", quoted(escaped(name)),
                 "each name once");
  }
}

void check_data(Rules& rules, const JobSpec& spec) {
  const DataSpec& data = spec.data;
  const Task task = task_of(spec.model);
  const TaskRules& known = rules_of(task);
  rules.one_of("data.kind", data.kind, {known.data_kinds.begin(), known.data_kinds.end()},
               std::string(" for ") + known.name);
  rules.expect(data.kind == "synthetic" || !data.path.empty(), "data.path", "\"\"",
               "the file or directory of the data");
  if (job_fields::has_images(spec))
    check_images(rules, data);
  else
    check_no_images(rules, data, task);
  check_python(rules, data);
  check_documents(rules, data);
  rules.expect(data.groups.empty() || data.weights.empty(), "data.groups", quoted(data.groups),
               "\"\" together with data.weights");
  rules.expect(data.length_buckets.empty() || (data.weights.empty() && data.groups.empty()),
               "data.length_buckets", quoted(data.length_buckets),
               "\"\" together with data.weights or data.groups");
  rules.expect(data.kind != "squad" || !data.vocabulary_file.empty(), "data.vocabulary_file",
               "\"\"", "the file of the WordPiece vocabulary");
  if (task == Task::kLanguage) check_language(rules, data);
}

void check_optimizer(Rules& rules, const OptimizerSpec& o) {
  rules.expect(!o.nesterov || (o.kind == "sgd" && o.momentum > 0.0), "optimizer.nesterov", "true",
               "false, or kind = \"sgd\" with a momentum above 0");
}

void check_schedule(Rules& rules, const JobSpec& spec) {
  const ScheduleSpec& s = spec.schedule;
  // The linear schedule divides by steps - warmup_steps. Epochs or stages may give the number of
  // steps later. validate() is then called again.
  if (s.kind == "linear" && spec.steps != 0)
    rules.expect(s.warmup_steps < spec.steps, "schedule.warmup_steps",
                 std::to_string(s.warmup_steps),
                 "less than steps = " + std::to_string(spec.steps) + " for kind = \"linear\"");
  rules.expect(s.kind != "points" || !s.points.empty(), "schedule.points", "\"\"",
               "at least one point for kind = \"points\"");
  const bool has_momentum = spec.optimizer.kind != "sgd" || spec.optimizer.momentum > 0.0;
  rules.expect(s.momentum_points.empty() || has_momentum, "schedule.momentum_points",
               quoted(schedule_points_text(s.momentum_points)),
               "empty for sgd with the momentum 0");
}

// A job that decides by evaluations needs some before the end.
void check_decisions(Rules& rules, const JobSpec& spec) {
  const char* field = spec.schedule.kind == "plateau" ? "schedule.kind = \"plateau\""
                      : !spec.stop.metric.empty()     ? "stop.metric"
                                                      : "checkpoint.keep_best";
  rules.expect(!decides(spec) || spec.eval_every != 0, "eval_every", "0",
               std::string("at least 1 with ") + field + ", which decides by evaluations");
  rules.expect(spec.checkpoint.keep_best.empty() || !spec.checkpoint.directory.empty(),
               "checkpoint.directory", "\"\"", "the directory for the best checkpoint");
}

void check_log(Rules& rules, const LogSpec& log) {
  rules.expect(log.mlflow.empty() || check_service_url("", log.mlflow).ok(), "log.mlflow",
               log.mlflow,
               "http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH] without a user name");
  rules.expect(!log.experiment.empty(), "log.experiment", "\"\"", "a name");
}

void check_checkpoint(Rules& rules, const CheckpointSpec& checkpoint) {
  rules.expect(checkpoint.every_steps == 0 || !checkpoint.directory.empty(), "checkpoint.directory",
               "\"\"", "the directory for them");
}

void check_resources(Rules& rules, const JobSpec& spec) {
  const ResourceSpec& r = spec.resources;
  rules.range<std::uint32_t>("resources.min_devices", r.min_devices, 1, spec.max_p);
  rules.range<std::uint32_t>("resources.max_devices", r.max_devices, 0, spec.max_p);
  if (r.max_devices != 0)
    rules.expect(r.max_devices >= r.min_devices, "resources.max_devices",
                 std::to_string(r.max_devices),
                 "0 or at least min_devices = " + std::to_string(r.min_devices));
  // For level auto, validate() is called again with the level that was chosen.
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

// The length of the training is given once: by steps, by epochs or by stages. If steps are given
// with stages, they must be the sum of the stages. That sum depends on the checkpoint from which
// the job begins, so admission and esctl check it.
void check_length(Rules& rules, const JobSpec& spec) {
  rules.expect(spec.steps != 0 || spec.epochs != 0 || !spec.stages.empty(), "steps", "0",
               "at least 1, or epochs at least 1, or stages");
  const std::string epochs = std::to_string(spec.epochs);
  rules.expect(spec.epochs == 0 || spec.steps == 0, "epochs", epochs,
               "0 beside steps = " + std::to_string(spec.steps) + " (give steps or epochs)");
  rules.expect(spec.epochs == 0 || spec.stages.empty(), "epochs", epochs,
               "0 beside stages = " + quoted(stages_text(spec.stages)) +
                   ", which say how many steps there are");
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

std::vector<TaskNames> task_names() {
  std::vector<TaskNames> all;
  for (const TaskRules& t : kTasks)
    all.push_back(
        {t.task, {t.models.begin(), t.models.end()}, {t.data_kinds.begin(), t.data_kinds.end()}});
  return all;
}

const char* task_name(Task task) {
  return rules_of(task).name;
}

const std::string& model_text(const ModelSpec& model) {
  return model.file.empty() ? model.name : model.file;
}

Task task_of(const ModelSpec& model) {
  if (!model.file.empty()) return Task::kCaptured;
  for (const TaskRules& t : kTasks)
    if (std::find(t.models.begin(), t.models.end(), model.name) != t.models.end()) return t.task;
  // A name that is not valid, which validate() reports. Its other rules need some task until then.
  return Task::kClassification;
}

Result<DeterminismLevel> parse_level(std::string_view text) {
  for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2,
                           DeterminismLevel::kAuto})
    if (text == level_name(level)) return level;
  return usage_error("level = \"" + std::string(text) + "\": allowed is D0, D1, D2, auto");
}

bool decides(const JobSpec& spec) {
  return spec.schedule.kind == "plateau" || !spec.stop.metric.empty() ||
         !spec.checkpoint.keep_best.empty();
}

Status validate(const JobSpec& spec, const std::string& where) {
  Rules rules(where);
  // Single fields come first, because only the first violation is reported, and a relation between
  // fields is easier to understand when each of them is allowed.
  visit_job_fields(spec, FieldRules(rules, spec));
  rules.expect(is_job_name(spec.name), "name", '"' + spec.name + '"',
               "1 to 64 letters, digits, '-', '_' or '.'");
  check_length(rules, spec);
  const bool vendor_level =
      spec.level == DeterminismLevel::kD0 || spec.level == DeterminismLevel::kD1;
  // Level auto is refused too, because it may become D2.
  rules.expect(!spec.tf32 || vendor_level, "tf32", "true",
               std::string("false at level ") + level_name(spec.level) +
                   "; TF32 is what vendor kernels may do at levels D0 and D1");
  check_model(rules, spec.model);
  check_loss(rules, spec);
  check_lora(rules, spec.lora);
  check_data(rules, spec);
  check_metrics(rules, spec);
  check_optimizer(rules, spec.optimizer);
  check_schedule(rules, spec);
  check_resources(rules, spec);
  check_checkpoint(rules, spec.checkpoint);
  check_decisions(rules, spec);
  // An evaluation needs the average of all parameters in one place.
  rules.expect(spec.shard.state != "on" || spec.optimizer.ema == 0, "shard.state",
               '"' + spec.shard.state + '"', "\"auto\" or \"off\" with optimizer.ema");
  check_log(rules, spec.log);
  return rules.status();
}

}  // namespace es
