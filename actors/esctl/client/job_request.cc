#include "actors/esctl/client/job_request.h"

#include <numeric>
#include <system_error>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/encoded_texts.h"
#include "actors/worker/job_model/job_model.h"
#include "actors/worker/state/kernel_record.h"
#include "gpu/engine/device_choice.h"
#include "store/checkpoint/checkpoint.h"
#include "store/dataset/job_sampler.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

std::uint64_t stage_steps(const JobSpec& spec) {
  return std::accumulate(spec.stages.begin(), spec.stages.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Stage& stage) { return sum + stage.steps; });
}

Status apply_level_and_stages(JobSpec& spec, const SpecChanges& changes) {
  if (changes.level) {
    const Result<DeterminismLevel> level = parse_level(*changes.level);
    if (!level) return level.error();
    spec.level = *level;
  }
  if (changes.stages) {
    Result<std::vector<Stage>> stages = parse_stages(*changes.stages);
    if (!stages) return stages.error();
    spec.stages = *std::move(stages);
  }
  return {};
}

// Without the version of the checkpoint, the number of steps cannot be computed from the stages.
// The head computes it then.
Status apply_steps(JobSpec& spec, const SpecChanges& changes, const StartPoint& start) {
  if (changes.steps) spec.steps = *changes.steps;
  // The option replaces the length in the file, and validate() allows only one.
  if (changes.steps || changes.stages) spec.epochs = 0;
  // The stages give the length if they are on the command line, or if nothing else gives it. Steps
  // on the command line must agree with them. --devices replaces the stages.
  const bool from_stages = !spec.stages.empty() && !changes.devices &&
                           (changes.stages || changes.steps || (spec.steps + spec.epochs) == 0);
  if (!from_stages || !start.version) return {};
  const std::uint64_t total = *start.version + stage_steps(spec);
  if (changes.steps && *changes.steps != total)
    return usage_error("--steps = " + std::to_string(*changes.steps) + ": with the stages " +
                       stages_text(spec.stages) + " allowed is their sum" +
                       (*start.version == 0 ? "" : " after the checkpoint's step") + ", " +
                       std::to_string(total));
  spec.steps = total;
  return {};
}

Status apply_devices(JobSpec& spec, const SpecChanges& changes, const StartPoint& start) {
  if (!changes.devices) return {};
  Result<DeviceSet> devices = parse_device_set(*changes.devices);
  if (!devices) return devices.error();
  const Result<std::uint64_t> total = total_steps(spec);
  if (!total) return total.error();
  spec.steps = *total;
  spec.epochs = 0;
  // If no step is left to do, check_steps_left reports it later.
  const std::uint64_t done = start.version.value_or(0);
  spec.stages = {{*std::move(devices), *total > done ? *total - done : 1}};
  return {};
}

Status check_steps_left(const JobSpec& spec, const StartPoint& start) {
  if (spec.steps == 0 || start.version.value_or(0) < spec.steps) return {};
  return usage_error("--from " + start.checkpoint + ": the checkpoint is of step " +
                     std::to_string(*start.version) + ", and the job ends at step " +
                     std::to_string(spec.steps) +
                     "; allowed is a larger number of steps (--steps)");
}

Status check_device_type(const DeviceType& type, const std::string& field,
                         const DeviceSet& offered) {
  const Status known = gpu::check_device_name(type);
  if (!known.ok()) return usage_error(field + ": " + known.error().message);
  if (offered.count_of(type) > 0) return {};
  const Result<CpuClass> cpu = parse_cpu_class(type.name);
  return refused(
      field + ": device type " + type.name +
      (cpu && !cpu_supports(*cpu) ? ": this processor cannot execute it" : " is not offered") +
      "; allowed here: " + offered.text());
}

}  // namespace

Result<StartPoint> open_start_point(const std::string& from, bool may_be_remote) {
  if (from.empty()) return StartPoint{.checkpoint = {}, .version = 0};
  std::error_code code;
  const fs::path directory = fs::absolute(from, code);
  const auto reader = store::CheckpointReader::open(directory);
  if (!reader) {
    // The head may be on another machine that can read the checkpoint. The head then finds its
    // version.
    if (may_be_remote && !fs::exists(directory, code))
      return StartPoint{.checkpoint = directory.string(), .version = std::nullopt};
    return reader.error();
  }
  ES_RETURN_IF_ERROR(reader->verify());
  const auto kernels = read_kernel_record(*reader, directory.string());
  if (!kernels) return kernels.error();
  StartPoint start{.checkpoint = directory.string(), .version = reader->head().version};
  if (*kernels) start.level = (*kernels)->level;
  return start;
}

Result<JobSpec> read_with_absolute_paths(const fs::path& file) {
  Result<JobSpec> spec = read_job_file(file);
  if (!spec) return spec;
  std::error_code code;
  // Paths in a job file are relative to that file. The head runs in another directory, so they are
  // made absolute here.
  const fs::path base = fs::absolute(file, code).parent_path();
  for (std::string* path :
       {&spec->data.path, &spec->data.vocabulary_file, &spec->data.python, &spec->data.weights,
        &spec->data.groups, &spec->data.length_buckets, &spec->data.tokenizer, &spec->model.file,
        &spec->model.weights, &spec->checkpoint.directory, &spec->log.tensorboard})
    if (!path->empty()) *path = (base / *path).lexically_normal().string();
  return spec;
}

Result<JobSpec> make_spec(const fs::path& file, const SpecChanges& changes, const StartPoint& start,
                          const store::TokenSetProgress& progress) {
  Result<JobSpec> spec = read_with_absolute_paths(file);
  if (!spec) return spec;
  // The head and the nodes have neither texts nor tokenizers.
  ES_RETURN_IF_ERROR(encode_texts(*spec, file, progress));
  // In this order: the steps depend on the stages, and the one stage of --devices on the steps.
  ES_RETURN_IF_ERROR(apply_level_and_stages(*spec, changes));
  ES_RETURN_IF_ERROR(apply_steps(*spec, changes, start));
  ES_RETURN_IF_ERROR(apply_devices(*spec, changes, start));
  ES_RETURN_IF_ERROR(check_steps_left(*spec, start));
  // Again, because options can break a relation between fields that holds in the file.
  ES_RETURN_IF_ERROR(validate(*spec, file.string() + " with the options given"));
  return spec;
}

Result<std::uint64_t> total_steps(const JobSpec& spec) {
  if (spec.steps != 0) return spec.steps;
  if (spec.epochs == 0) return stage_steps(spec);
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  const auto data = model->data_facts(spec);
  if (!data) return data.error();
  const auto sampler =
      store::job_sampler(spec, data->train_count, model->turns(), model->inputs().get());
  if (!sampler) return sampler.error();
  return sampler->steps_of_epochs(spec.epochs);
}

Status check_devices(const JobSpec& spec, const DeviceSet& offered) {
  for (const DeviceType& type : spec.resources.device_types)
    ES_RETURN_IF_ERROR(check_device_type(type, "resources.device_types", offered));
  for (const Stage& stage : spec.stages) {
    for (const DeviceCount& count : stage.devices.counts)
      ES_RETURN_IF_ERROR(check_device_type(count.type, "stages", offered));
    if (!offered.contains(stage.devices))
      return refused("stages: " + stage.devices.text() +
                     " are more devices than this machine offers: " + offered.text());
  }
  return {};
}

}  // namespace es::actors::esctl
