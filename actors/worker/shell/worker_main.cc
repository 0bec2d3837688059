#include "actors/worker/shell/worker_main.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <caf/all.hpp>

#include <csignal>
#include <filesystem>

#include "actors/base/gateway/core/host_id.h"
#include "actors/base/gateway/shell/gateway_actor.h"
#include "actors/base/job_file/job_file.h"
#include "actors/base/log/log.h"
#include "actors/base/program/actor_process.h"
#include "actors/base/program/log_options.h"
#include "actors/base/program/program.h"
#include "actors/base/program/wire_options.h"
#include "actors/base/protocol/core/decisions.h"
#include "actors/base/protocol/core/process_exit.h"
#include "actors/worker/data_workers/shell/data_workers_actor.h"
#include "actors/worker/device/device_loss.h"
#include "actors/worker/job_model/job_model.h"
#include "actors/worker/shell/device_actor.h"
#include "actors/worker/shell/worker_actor.h"
#include "actors/worker/state/kernel_record.h"
#include "actors/worker/state/node_roots.h"
#include "gpu/base/vendor_kernels.h"
#include "gpu/cuda/device_reduction.h"
#include "gpu/engine/channel_device.h"
#include "gpu/engine/device_choice.h"
#include "gpu/params/buckets.h"
#include "store/dataset/job_sampler.h"
#include "store/path_roots.h"

namespace es::actors {
namespace {

// The number of mini-batches in memory: one on the device, one that is loaded, and one that each
// loader fills. If mini-batches are small, it is the number that all ESTs together may hold, one in
// use and one prefetched for each, so that short local steps need not wait for a message.
std::uint32_t batch_slots(std::uint32_t loaders, std::uint32_t max_p, std::size_t batch_bytes) {
  constexpr std::size_t kSmallBatchesBytes = std::size_t{4} << 20;
  const std::size_t small = std::min<std::size_t>(2 * max_p, kSmallBatchesBytes / batch_bytes);
  return std::max(2 + loaders, 1 + static_cast<std::uint32_t>(small));
}

struct Arguments {
  JobId job;
  std::uint64_t incarnation = 0;
  DeviceId device;
  std::string head_endpoint;
  std::string spec_file;
  std::string run_dir;
  std::string rescue_dir;
  std::string head_checkpoints;
  std::uint32_t loaders = 1;
  std::vector<std::string> data_roots, checkpoint_roots;
  bool python_data = false;
  WireOptions wire;
  log::Options log;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("EasyScale worker process (started by easyscaled)");
  app.add_option("--job", a.job)->required();
  app.add_option("--incarnation", a.incarnation)->required();
  app.add_option("--node", a.device.node)->required();
  app.add_option("--device", a.device.type.name)->required();
  app.add_option("--device-index", a.device.index)->required();
  app.add_option("--head", a.head_endpoint)->required();
  app.add_option("--spec", a.spec_file)->required();
  app.add_option("--run-dir", a.run_dir)->required();
  app.add_option("--rescue", a.rescue_dir);
  app.add_option("--loaders", a.loaders)->check(CLI::Range(1, kLoadersMax));
  app.add_option("--data-root", a.data_roots);
  app.add_option("--checkpoint-root", a.checkpoint_roots);
  app.add_option("--head-checkpoints", a.head_checkpoints);
  app.add_flag("--python-data", a.python_data);
  add_wire_options(app, a.wire);
  add_log_options(app, a.log);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    throw Ended{app.exit(e) == 0 ? 0 : exit_code(ErrorKind::kUsage)};
  }
  return a;
}

// Restricts the process to the allowed paths and programs. Call it before any thread is started.
Status confine(const Arguments& a) {
  store::PathRoots roots;
  roots.programs = a.python_data;
  if (!a.data_roots.empty()) {
    auto data = store::resolve_roots(a.data_roots, "--data-root");
    if (!data) return data.error();
    roots.data = *std::move(data);
  }
  auto checkpoints = checkpoint_roots({.roots = a.checkpoint_roots,
                                       .rescue = a.rescue_dir,
                                       .run = a.run_dir,
                                       .head = a.head_checkpoints});
  if (!checkpoints) return checkpoints.error();
  roots.checkpoints = *std::move(checkpoints);
  store::confine_process(std::move(roots));
  return {};
}

Result<std::shared_ptr<DataSource>> make_data(const JobModel& model, const JobSpec& spec,
                                              std::uint32_t loaders) {
  auto samples = model.open_samples(spec);
  if (!samples) return samples.error();
  auto sampler =
      store::job_sampler(spec, (*samples)->train_count(), model.turns(), model.inputs().get());
  if (!sampler) return sampler.error();
  const auto batch_words = spec.batch_size * static_cast<std::size_t>((*samples)->words_max());
  const std::uint32_t slots = batch_slots(loaders, spec.max_p, batch_words * sizeof(float));
  return std::make_shared<DataSource>(
      DataSource{*std::move(samples), *sampler, BatchPool(slots, batch_words)});
}

// Nothing on a lost device can be saved, so the process ends at once. The job continues without
// this worker, as after any other end of a process.
void end_with_device(const std::string& error) {
  log::error("the device is lost: " + error);
  ::_exit(exit_code(ErrorKind::kFailure));
}

// Builds everything that can fail before the first message.
Result<std::shared_ptr<DeviceParts>> make_parts(const Arguments& a) {
  auto spec = read_job_file(a.spec_file);
  if (!spec) return spec.error();
  gpu::EngineOptions engine_options;
  ES_RETURN_IF_ERROR(gpu::choose_device(a.device.type, a.device.index, engine_options));
  const auto model = JobModel::open(spec->model);
  if (!model) return model.error();
  auto data = make_data(*model, *spec, a.loaders);
  if (!data) return data.error();
  engine_options.vendor = gpu::allows_vendor(spec->level);
  engine_options.total_steps = spec->steps;
  engine_options.bucket_bytes = gpu::kBucketBytes;
  engine_options.threads = spec->resources.threads;
  auto graph = model->graph(*spec, (*data)->samples->layout());
  if (!graph) return graph.error();
  auto engine = gpu::Engine::create(*spec, *std::move(graph), engine_options);
  if (!engine) return engine.error();
  for (const std::string& refused : (*engine)->vendor_refusals()) log::info(refused);
  auto parts = std::make_shared<DeviceParts>();
  parts->options = {.job = a.job,
                    .incarnation = {a.incarnation},
                    .spec = *spec,
                    .spec_toml = to_toml(*spec),
                    .last_version = spec->steps,
                    .rescue_dir = a.rescue_dir,
                    .node_dir = a.run_dir};
  // For tests; docs/reference/testing.md describes the variables.
  const char* fault = std::getenv("ES_FAULT");
  auto parsed = worker::parse_fault(fault == nullptr ? "" : fault, a.device.text());
  if (!parsed) return parsed.error();
  const char* token = std::getenv("ES_FAULT_TOKEN");
  if (*parsed && token != nullptr) (*parsed)->token = token;
  parts->options.fault = *parsed;
  const char* loss = std::getenv("ES_LOSE_DEVICE");
  const auto lost_at = worker::parse_device_loss(loss == nullptr ? "" : loss, a.device.text());
  if (!lost_at) return lost_at.error();
  parts->options.lost_at = *lost_at;
  parts->engine = *std::move(engine);
  parts->on_device_lost = end_with_device;
  parts->data = *std::move(data);
  parts->inputs = model->inputs();
  parts->engine->pin_batches(parts->data->pool.all_words(), parts->data);
  parts->abandoned_below = std::make_shared<AbandonedBelow>(0);
  parts->step_work = std::make_shared<StepWork>();
  parts->recorder = parts->data->recorder = std::make_shared<tracing::Recorder>();
  return parts;
}

Result<std::shared_ptr<DeviceParts>> make_parts_if_memory_suffices(const Arguments& a) {
  try {
    return make_parts(a);
  } catch (const gpu::NoMemory& missing) {
    return failure(missing.what());
  } catch (const std::bad_alloc&) {
    return failure("not enough memory for the job's data");
  }
}

// Returns the part of the device that connects it to other devices. Without it all data goes
// through host memory.
gpu::ChannelDevice channel_device(const Arguments& a) {
  auto opened = gpu::open_channel_device(a.device.type, a.device.index, host_id());
  if (opened) return *std::move(opened);
  log::warning("no channels to other devices: " + opened.error().message);
  return {};
}

WorkerOptions worker_options(const Arguments& a,
                             const Result<std::shared_ptr<DeviceParts>>& parts) {
  WorkerOptions options;
  options.job = a.job;
  options.core.self = {a.incarnation};
  options.core.device = a.device;
  options.core.host_id = host_id();
  options.core.link_timeout = std::chrono::milliseconds(a.wire.dead_after_ms);
  options.pull_directory = std::filesystem::path(a.run_dir) /
                           ("worker-" + std::to_string(a.incarnation) + worker::kPulledSuffix);
  options.head_endpoint = a.head_endpoint;
  if (parts) {
    options.core.max_p = (*parts)->options.spec.max_p;
    options.core.sum_per_worker =
        (*parts)->engine->gradient_order() == gpu::GradientOrder::kPerWorker;
    options.core.kernels = encode(kernel_record(*(*parts)->engine, (*parts)->options.spec.level));
    options.core.eval_every = (*parts)->options.spec.eval_every;
    options.core.audit_every = (*parts)->options.spec.audit.every_steps;
    options.core.decided_every = protocol::decided_every((*parts)->options.spec);
    options.core.may_stop = !(*parts)->options.spec.stop.metric.empty();
    options.abandoned_below = (*parts)->abandoned_below;
    options.step_work = (*parts)->step_work;
    options.recorder = (*parts)->recorder;
    options.last_version = (*parts)->options.last_version;
  } else {
    options.setup_error = parts.error().message;
    options.abandoned_below = std::make_shared<AbandonedBelow>(0);
    options.step_work = std::make_shared<StepWork>();
    options.recorder = std::make_shared<tracing::Recorder>();
  }
  return options;
}

Result<TransportOptions> transport_options(const Arguments& a) {
  TransportOptions options;
  options.self = worker_peer({a.incarnation});
  options.endpoint = worker_endpoint(a.wire, a.head_endpoint, a.run_dir, a.incarnation);
  options.serves_clients = false;
  ES_RETURN_IF_ERROR(apply(a.wire, options));
  return options;
}

// What a process needs whatever its job is: its paths, its keys and a place to listen. Returns its
// exit status.
int node_is_unusable(const Error& error) {
  log::error(error.message);
  return kNodeUnusable;
}

}  // namespace

int worker_main(int argc, char** argv) {
  // Ctrl-C goes to the whole process group, and a batch system sends SIGTERM to all processes of a
  // job. The daemon decides what happens to its workers, and ends them with SIGKILL.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  const Arguments arguments = parse(argc, argv);
  const log::About worker{
      .job = arguments.job, .worker = arguments.incarnation, .node = arguments.device.node};
  if (const Status logs = log::start(arguments.log, worker); !logs.ok())
    return refuse(logs.error());
  log::info("begins on device " + arguments.device.text());
  if (const Status confined = confine(arguments); !confined.ok())
    return node_is_unusable(confined.error());
  auto wire = transport_options(arguments);
  if (!wire) return node_is_unusable(wire.error());
  // An error here does not end the process. The worker reports it to the head as the reason why the
  // job cannot work here (setup_error).
  const auto parts = make_parts_if_memory_suffices(arguments);
  // The thread of the channels is never joined, because it may be inside a library call that does
  // not return.
  std::shared_ptr<worker::ChannelThread> channels;
  run_actor_process("easyscaled worker", 1, [&](caf::actor_system& system) -> Status {
    // What is held of sharded state is in host memory, so a channel between devices does not help.
    const bool joins = parts && (*parts)->options.spec.shard.state != "on";
    gpu::ChannelDevice joining = joins ? channel_device(arguments) : gpu::ChannelDevice();
    WorkerOptions options = worker_options(arguments, parts);
    if (joining.library)
      options.core.channel = {joining.library->kind(), joining.library->device()};
    // The gateway needs the worker as its sink, and the device half needs the worker for its
    // reports. The worker therefore exists first and gets the others by BeginWork.
    const auto worker = system.spawn(worker_actor, std::move(options));
    const auto gateway = start_gateway(system, *std::move(wire), worker,
                                       [](const std::string& line) { log::warning(line); });
    if (!gateway) throw Ended{node_is_unusable(gateway.error())};
    caf::actor device;
    if (parts) {
      std::vector<caf::actor> loaders;
      for (std::uint32_t i = 0; i < arguments.loaders; ++i)
        loaders.push_back(system.spawn<caf::detached>(loader_actor, (*parts)->data, i));
      const auto data =
          system.spawn(data_workers_actor, (*parts)->data->pool.slots(), std::move(loaders));
      device = system.spawn<caf::detached>(device_actor, *parts, worker, data);
    }
    if (joining.library) {
      gpu::cuda::DeviceReduction* const reduction = (*parts)->engine->reduction();
      channels = std::make_shared<worker::ChannelThread>(
          std::move(joining), reduction != nullptr ? reduction->pool() : nullptr,
          [worker](auto event) { caf::anon_send(worker, ChannelReport{std::move(event)}); });
    }
    caf::anon_send(worker, BeginWork{gateway->actor, gateway->endpoint, device, channels});
    caf::scoped_actor waiter(system);
    waiter->wait_for(worker, gateway->actor);
    // The device half may still be inside a kernel. Its result is no longer needed. The node agent
    // removes what is left of shared memory.
    return {};
  });
}

}  // namespace es::actors
