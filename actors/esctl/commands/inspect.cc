#include <filesystem>

#include "actors/admission/admission.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/inspect_view.h"
#include "actors/job_file/job_file.h"
#include "gpu/engine/device_choice.h"
#include "gpu/params/buckets.h"
#include "store/dataset/sample_source.h"

namespace es::actors::esctl {
namespace {

struct InspectOptions {
  HeadOptions head;
  std::string job;
  bool json = false;
};

// The name of a file ends in .toml; any other word is the id of a job that the head knows.
Result<JobSpec> find_spec(const InspectOptions& options) {
  if (options.job.ends_with(".toml"))
    return make_spec(options.job, {}, StartPoint{.checkpoint = {}, .version = 0});
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  return parse_job(details->spec_toml, "job " + options.job);
}

// Describes one engine for each type of GPU.
Status inspect_gpus(const SampleLayout& layout, std::uint64_t steps, Inspection& inspection) {
  DeviceSet seen;
  for (const gpu::CudaDevice& device : inspection.cuda.devices) {
    if (seen.count_of(device.type()) > 0) continue;
    seen.add(device.type(), 1);
    gpu::EngineOptions options{.total_steps = steps, .bucket_bytes = gpu::kBucketBytes};
    ES_RETURN_IF_ERROR(gpu::choose_device(device.type(), 0, options));
    const auto engine = gpu::Engine::create(inspection.spec, layout, options);
    if (!engine) return engine.error();
    inspection.engines.push_back((*engine)->describe());
  }
  return {};
}

Result<Inspection> inspect(const JobSpec& spec) {
  const auto data = store::data_facts(spec);
  if (!data) return data.error();
  const Result<std::uint64_t> steps = total_steps(spec);
  if (!steps) return steps.error();
  Inspection inspection{
      .spec = spec, .layout = data->layout, .engines = {}, .cuda = gpu::cuda_inventory(), .d2 = {}};
  for (const CpuClass cpu_class : supported_cpu_classes()) {
    const auto engine = gpu::Engine::create(spec, data->layout,
                                            {.cpu_class = cpu_class,
                                             .total_steps = *steps,
                                             .bucket_bytes = gpu::kBucketBytes,
                                             .threads = spec.resources.threads});
    if (!engine) return engine.error();
    inspection.engines.push_back((*engine)->describe());
  }
  ES_RETURN_IF_ERROR(inspect_gpus(data->layout, *steps, inspection));
  auto d2 = measure_d2_cost(spec);
  if (!d2) return d2.error();
  inspection.d2 = *std::move(d2);
  return inspection;
}

Status inspect_command(const InspectOptions& options, Console& console) {
  const Result<JobSpec> spec = find_spec(options);
  if (!spec) return spec.error();
  const Result<Inspection> inspection = inspect(*spec);
  if (!inspection) return inspection.error();
  console.out << (options.json ? inspection_json(*inspection) + "\n"
                               : inspection_text(*inspection));
  return {};
}

}  // namespace

void add_inspect_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Show what a job executes: operators, shapes, kernels, memory, and the cost of D2");
  command->add_option("job", options->job, "Job specification, or the id of a submitted job")
      ->required()
      ->type_name("JOB.toml|JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl inspect configs/jobs/small_cnn.toml");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(inspect_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
