#include <filesystem>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/inspect_view.h"
#include "actors/head/admission/admission.h"
#include "actors/worker/job_model/job_model.h"
#include "gpu/engine/device_choice.h"
#include "gpu/params/buckets.h"

namespace es::actors::esctl {
namespace {

struct InspectOptions {
  HeadOptions head;
  std::string job;
  std::uint32_t batch_size = JobSpec().batch_size;  // of a model file
  bool no_d2 = false;
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
Status inspect_gpus(const gpu::Graph& graph, std::uint64_t steps, Inspection& inspection) {
  DeviceSet seen;
  for (const gpu::CudaDevice& device : inspection.cuda.devices) {
    if (seen.count_of(device.type()) > 0) continue;
    seen.add(device.type(), 1);
    gpu::EngineOptions options{.total_steps = steps, .bucket_bytes = gpu::kBucketBytes};
    ES_RETURN_IF_ERROR(gpu::choose_device(device.type(), 0, options));
    const auto engine = gpu::Engine::create(inspection.spec, graph, options);
    if (!engine) return engine.error();
    inspection.engines.push_back((*engine)->describe());
  }
  return {};
}

// Describes an engine of each kernel class of this processor, and of each type of GPU.
Result<Inspection> inspect_graph(const JobSpec& spec, const gpu::Graph& graph,
                                 std::uint64_t steps) {
  Inspection inspection{.spec = spec,
                        .layout = graph.layout,
                        .others = {},
                        .engines = {},
                        .cuda = gpu::cuda_inventory(),
                        .d2 = {}};
  for (const gpu::Graph& further : graph.programs) inspection.others.push_back(further.layout);
  for (const CpuClass cpu_class : supported_cpu_classes()) {
    const auto engine = gpu::Engine::create(spec, graph,
                                            {.cpu_class = cpu_class,
                                             .total_steps = steps,
                                             .bucket_bytes = gpu::kBucketBytes,
                                             .threads = spec.resources.threads});
    if (!engine) return engine.error();
    inspection.engines.push_back((*engine)->describe());
  }
  ES_RETURN_IF_ERROR(inspect_gpus(graph, steps, inspection));
  return inspection;
}

Result<Inspection> inspect_job(const JobSpec& spec, bool measure) {
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  const auto data = model->data_facts(spec);
  if (!data) return data.error();
  const Result<std::uint64_t> steps = total_steps(spec);
  if (!steps) return steps.error();
  const auto graph = model->graph(spec, data->layout);
  if (!graph) return graph.error();
  auto inspection = inspect_graph(spec, *graph, *steps);
  if (!inspection) return inspection;
  inspection->of_job = true;
  if (!measure) return inspection;
  auto d2 = measure_d2_cost(spec);
  if (!d2) return d2.error();
  inspection->d2 = *std::move(d2);
  return inspection;
}

// Inspects a model file without data, as a job with default values would train it.
Result<Inspection> inspect_model(const InspectOptions& options) {
  JobSpec spec;
  spec.model.file = options.job;
  spec.batch_size = options.batch_size;
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  const auto graph = model->graph(spec, {});
  if (!graph) return graph.error();
  if (graph->updates != nullptr) spec.optimizer.kind = "captured";
  return inspect_graph(spec, *graph, 1);
}

// The name of a model file ends in .esmodel.
Result<Inspection> inspect(const InspectOptions& options) {
  if (options.job.ends_with(".esmodel")) return inspect_model(options);
  const Result<JobSpec> spec = find_spec(options);
  if (!spec) return spec.error();
  return inspect_job(*spec, !options.no_d2);
}

Status inspect_command(const InspectOptions& options, Console& console) {
  const Result<Inspection> inspection = inspect(options);
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
      "Show what a job or a model file executes: operators, shapes, kernels, memory, and for a job "
      "the cost of D2");
  command
      ->add_option("job", options->job,
                   "Job specification, model file, or the id of a submitted job")
      ->required()
      ->type_name("JOB.toml|FILE.esmodel|JOB");
  command
      ->add_option("--batch-size", options->batch_size, "Samples of a mini-batch, for a model file")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command->add_flag("--no-d2", options->no_d2,
                    "Do not train the steps that measure the cost of D2, as for a model that does "
                    "not fit into the memory of this machine");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl inspect configs/jobs/small_cnn.toml");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(inspect_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
