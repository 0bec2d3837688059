#include "actors/esctl/client/checkpoint_model.h"

#include <algorithm>
#include <thread>

#include "actors/base/job_file/job_file.h"
#include "actors/worker/state/version_io.h"
#include "gpu/engine/device_choice.h"

namespace es::actors::esctl {
namespace {

// The sizes of the first and the last layer of a built-in model follow from the data. A model file
// has them itself.
Result<SampleLayout> layout_for(const JobModel& model, const JobSpec& spec) {
  if (model.program() != nullptr) return SampleLayout();
  const auto data = model.data_facts(spec);
  if (!data) return Error{data.error().kind, data.error().message + " (name the data with --data)"};
  return data->layout;
}

}  // namespace

Result<CheckpointModel> open_checkpoint_model(const std::string& checkpoint,
                                              const std::function<void(JobSpec&)>& change) {
  auto reader = store::CheckpointReader::open(checkpoint);
  if (!reader) return reader.error();
  auto spec = parse_job(reader->job_toml(), checkpoint);
  if (!spec) return spec.error();
  change(*spec);
  auto model = JobModel::open(spec->model);
  if (!model) return model.error();
  const auto layout = layout_for(*model, *spec);
  if (!layout) return layout.error();
  auto graph = model->graph(*spec, *layout);
  if (!graph) return graph.error();
  return CheckpointModel{checkpoint, *std::move(reader), *std::move(spec), *std::move(model),
                         *std::move(graph)};
}

Result<CheckpointModel> open_checkpoint_model(const std::string& checkpoint,
                                              const std::string& data) {
  return open_checkpoint_model(checkpoint, [&](JobSpec& spec) {
    if (!data.empty()) spec.data.path = data;
  });
}

void add_device_options(CLI::App& command, RunDevice& device) {
  command
      .add_option("--device", device.type,
                  "Device type to run on, e.g. cpu-avx2; by default the fastest class of this "
                  "processor")
      ->type_name("TYPE");
  command
      .add_option("--threads", device.threads, "Computing threads; by default all of the machine")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
}

Result<std::unique_ptr<gpu::Engine>> trained_engine(const CheckpointModel& source,
                                                    const RunDevice& device) {
  // The kernels are the canonical ones, whatever the level of the job. No step is trained here, so
  // the number of steps is that of the checkpoint, but at least 1: an engine refuses 0 if its
  // schedule depends on that number.
  JobSpec spec = source.spec;
  spec.level = DeterminismLevel::kD2;
  gpu::EngineOptions options{.total_steps =
                                 std::max<std::uint64_t>(source.reader.head().version, 1)};
  options.threads =
      // hardware_concurrency() is 0 if the number is not known.
      device.threads != 0 ? device.threads : std::max(1U, std::thread::hardware_concurrency());
  const DeviceType type =
      device.type.empty() ? device_type(supported_cpu_classes().back()) : DeviceType{device.type};
  ES_RETURN_IF_ERROR(gpu::choose_device(type, 0, options));
  auto engine = gpu::Engine::create(spec, source.graph, options);
  if (!engine) return engine.error();
  ES_RETURN_IF_ERROR(worker::load_checkpoint(**engine, spec, source.directory));
  return engine;
}

}  // namespace es::actors::esctl
