// train_bench: times one training workload of this engine in one process and prints a JSON line.
//
//   train_bench (--workload resnet18_cifar32_b32 | --job JOB.toml) [--level D1|D2] [--warm N]
//               [--steps N] [--tf32] [--precision fp32|bf16] [--recompute none|blocks]
//               [--device cpu-avx512|cuda-sm90-h200|...] [--threads N] [--ests N]
//               [--profile | --against-one]
//
// --job takes model, initial weights, optimizer and the first mini-batch of a job file, so that
// operators of a captured model can be measured; it also says the precision and what is recomputed.
// Relative paths in it begin at the working directory.
//
// A step consists of the work of a worker that has all ESTs: local steps in turn, the merge of
// gradients in the tree, and one update. Samples are made before. With --profile tables of kinds of
// operators and of operators follow on stderr, the latter by the time above what the processor
// allows (floors.h). With --against-one the program alternates two workers, one with that many ESTs
// and one with a single EST, which make equally many local steps, and prints the ratio of their
// throughputs instead.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/base/job_file/job_file.h"
#include "actors/worker/job_model/job_model.h"
#include "actors/worker/state/initial_weights.h"
#include "gpu/base/peak.h"
#include "gpu/base/vendor_kernels.h"
#include "gpu/engine/device_choice.h"
#include "gpu/engine/engine.h"
#include "gpu/est/gradient_tree.h"
#include "gpu/graph/op_flops.h"
#include "gpu/graph/op_results.h"
#include "store/dataset/sample_source.h"
#include "tests/bench/duel.h"
#include "tests/bench/op_profile.h"
#include "tests/bench/train_workloads.h"

namespace es::bench {
namespace {

struct Options {
  std::string workload, job, level = "D2", device = "cpu-avx512";
  std::string precision = "fp32", recompute = "none";
  int warm = 2, steps = 7;
  std::uint32_t threads = 1, ests = 1;
  bool profile = false, against_one = false, tf32 = false;
};

[[noreturn]] void stop(const std::string& message) {
  std::cerr << "train_bench: " << message << "\n";
  std::exit(2);
}

Options parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  Options o;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--profile") {
      o.profile = true;
    } else if (std::string(argv[i]) == "--against-one") {
      o.against_one = true;
    } else if (std::string(argv[i]) == "--tf32") {
      o.tf32 = true;
    } else if (i + 1 < argc) {
      given[argv[i]] = argv[i + 1];
      ++i;
    } else {
      stop(std::string(argv[i]) + " needs a value");
    }
  }
  const auto take = [&](const char* name, const std::string& otherwise) {
    const auto found = given.extract(name);
    return found.empty() ? otherwise : found.mapped();
  };
  o.workload = take("--workload", "");
  o.job = take("--job", "");
  o.level = take("--level", o.level);
  o.device = take("--device", o.device);
  o.precision = take("--precision", o.precision);
  o.recompute = take("--recompute", o.recompute);
  o.warm = std::stoi(take("--warm", std::to_string(o.warm)));
  o.steps = std::stoi(take("--steps", std::to_string(o.steps)));
  o.threads = static_cast<std::uint32_t>(std::stoul(take("--threads", "1")));
  o.ests = static_cast<std::uint32_t>(std::stoul(take("--ests", "1")));
  if (!given.empty()) stop("unknown option " + given.begin()->first);
  if (o.steps < 1 || o.warm < 0 || o.ests < 1) stop("--steps and --ests begin at 1, --warm at 0");
  return o;
}

Workload find_workload(const std::string& name) {
  std::string names;
  for (const Workload& w : workloads()) {
    if (w.name == name) return w;
    names += " " + w.name;
  }
  stop("--workload " + name + ": allowed are" + names);
}

template <class Value>
Value value_of(Result<Value> result) {
  if (!result) stop(result.error().message);
  return *std::move(result);
}

// What the steps train: the graph, and a mini-batch.
struct Task {
  JobSpec spec;
  gpu::Graph graph;
  gpu::AlignedBuffer batch;
};

Task built_in_task(const Options& o) {
  const Workload workload = find_workload(o.workload);
  JobSpec spec = workload.spec;
  spec.precision = o.precision;
  spec.recompute = o.recompute;
  const SampleLayout& layout = workload.layout;
  gpu::AlignedBuffer batch(layout.words() * spec.batch_size);
  fill_randomly(workload, 7, {batch.data(), static_cast<std::size_t>(batch.floats())});
  gpu::Graph graph = value_of(value_of(actors::JobModel::open(spec.model)).graph(spec, layout));
  return {spec, std::move(graph), std::move(batch)};
}

Task task_of_job(const std::string& file) {
  JobSpec spec = value_of(actors::read_job_file(file));
  const actors::JobModel model = value_of(actors::JobModel::open(spec.model));
  const auto source = value_of(model.open_samples(spec));
  const auto sampler = value_of(store::EpochSampler::create({.samples = source->train_count(),
                                                             .max_p = spec.max_p,
                                                             .batch_size = spec.batch_size,
                                                             .seed = spec.seed}));
  gpu::AlignedBuffer batch(source->layout().words() * spec.batch_size);
  const Status filled = store::fill_batch(*source, sampler, sampler.cursor(0), 0,
                                          {batch.data(), static_cast<std::size_t>(batch.floats())});
  if (!filled.ok()) stop(filled.error().message);
  gpu::Graph graph = value_of(model.graph(spec, source->layout()));
  if (!spec.model.weights.empty())
    spec.model.weights_digest =
        value_of(actors::check_weights(spec.model.weights, graph.table, spec.lora)).hex();
  return {spec, std::move(graph), std::move(batch)};
}

Task find_task(const Options& o) {
  return o.job.empty() ? built_in_task(o) : task_of_job(o.job);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// A worker that has all ESTs.
class Worker {
 public:
  Worker(Task task, const Options& options)
      : spec_(task.spec), batch_(std::move(task.batch)), contexts_(options.ests) {
    spec_.max_p = options.ests;
    spec_.level = value_of(parse_level(options.level));
    spec_.tf32 = options.tf32;
    gpu::EngineOptions engine_options{.total_steps = spec_.steps,
                                      .threads = options.threads,
                                      .vendor = gpu::allows_vendor(spec_.level)};
    const Status there = gpu::choose_device({options.device}, 0, engine_options);
    if (!there.ok()) stop(there.error().message);
    engine_ = value_of(gpu::Engine::create(spec_, std::move(task.graph), engine_options));
    if (const Status made = engine_->init_replica(); !made.ok()) stop(made.error().message);
    if (const Status loaded = actors::load_initial_weights(*engine_, spec_); !loaded.ok())
      stop(loaded.error().message);
    engine_->pin_batches({batch_.data(), static_cast<std::size_t>(batch_.floats())}, nullptr);
    const std::uint32_t slots =
        gpu::max_live_buffers({0, spec_.max_p}, spec_.max_p, engine_->gradient_order());
    for (std::uint32_t i = 0; i < slots; ++i) slots_.emplace_back(engine_->table().total_floats());
    sums_.resize(engine_->buckets().size());
    tree_.emplace(
        RankRange{0, spec_.max_p}, spec_.max_p, engine_->buckets().size(),
        [this](const gpu::PartReady& part) {
          sums_[part.bucket] = slots_[part.slot].data() + engine_->buckets()[part.bucket].begin;
        },
        engine_->gradient_order());
  }

  // A step is begin(), local_step() of every rank in order, update().
  float step() {
    begin();
    float loss = 0.0F;
    for (VirtualRank rank = 0; rank < spec_.max_p; ++rank) loss = local_step(rank);
    update();
    return loss;
  }

  void begin() {
    tree_->release_all();
    merge_ms_ = 0.0;
  }

  float local_step(VirtualRank rank) {
    const gpu::Batch batch{batch_.data(), serial_++};
    if (rank + 1 < spec_.max_p) engine_->prefetch(rank + 1, {batch_.data(), serial_});
    const auto result =
        engine_->local_step(rank, batch, {0, engine_->version() + 1}, target(rank), contexts_[rank],
                            [this](std::uint32_t bucket) { merged(bucket); });
    if (!result) stop(result.error().message);
    return *result;
  }

  void update() {
    const double begin = seconds_of(CLOCK_MONOTONIC);
    const Status updated = engine_->apply_update(sums_, contexts_);
    if (!updated.ok()) stop(updated.error().message);
    update_ms_ = 1e3 * (seconds_of(CLOCK_MONOTONIC) - begin);
  }

  gpu::Engine& engine() { return *engine_; }
  const JobSpec& spec() const { return spec_; }
  double update_ms() const { return update_ms_; }
  double merge_ms() const { return merge_ms_; }
  std::uint32_t live_gradient_buffers() const { return tree_->peak_live_buffers(); }

 private:
  // A CPU merges between inspect() and merged(). A device merges by itself.
  gpu::GradientTarget target(VirtualRank rank) {
    gpu::GradientTarget target(tree_->begin_rank(rank),
                               [this](std::uint32_t slot) { return slots_[slot].data(); });
    if (!engine_->merges_on_device())
      target.inspect = [this](std::uint32_t, float*) {
        merge_begin_ = seconds_of(CLOCK_MONOTONIC);
      };
    return target;
  }
  void merged(std::uint32_t bucket) {
    if (!engine_->merges_on_device())
      merge_ms_ += 1e3 * (seconds_of(CLOCK_MONOTONIC) - merge_begin_);
    tree_->bucket_ready(bucket);
  }

  JobSpec spec_;
  gpu::AlignedBuffer batch_;
  std::uint64_t serial_ = 1;  // The mini-batch of each local step counts as a new one.
  std::vector<gpu::EstContext> contexts_;
  std::unique_ptr<gpu::Engine> engine_;
  std::vector<gpu::AlignedBuffer> slots_;
  std::vector<const float*> sums_;
  std::optional<gpu::GradientTree> tree_;
  double update_ms_ = 0.0, merge_ms_ = 0.0;  // Of the last step.
  double merge_begin_ = 0.0;
};

struct Times {
  std::vector<double> wall_ms, cpu_ms, update_ms, merge_ms;
  float loss = 0.0F;
};

Times measure(Worker& worker, int steps) {
  Times times;
  for (int i = 0; i < steps; ++i) {
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    times.loss = worker.step();
    times.wall_ms.push_back(1e3 * (seconds_of(CLOCK_MONOTONIC) - wall));
    times.cpu_ms.push_back(1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu));
    times.update_ms.push_back(worker.update_ms());
    times.merge_ms.push_back(worker.merge_ms());
  }
  return times;
}

// The bytes that all operators of a step write. At D2 a GPU reads them once more (finite_checks.h).
double result_bytes(const gpu::Graph& graph) {
  double floats = 0.0;
  for (const std::vector<gpu::OpResult>& results : gpu::op_results(graph))
    for (const gpu::OpResult& result : results) floats += double(result.count);
  return sizeof(float) * floats;
}

void print_json(const Options& o, Worker& worker, const Times& times) {
  constexpr double kMib = 1.0 / (1 << 20);
  const gpu::MemoryUse m = worker.engine().memory_use();
  const double ms = median(times.wall_ms);
  const auto [least, most] = std::minmax_element(times.wall_ms.begin(), times.wall_ms.end());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"workload\": \"%s\", \"level\": \"%s\", \"precision\": \"%s\", \"recompute\": \"%s\", "
      "\"tf32\": %s, \"device\": \"%s\", \"threads\": "
      "%u, "
      "\"ests\": %u, "
      "\"batch\": %u, \"ms\": %.4f, \"min_ms\": %.4f, \"spread\": %.3f, \"cpu_ms\": %.4f, "
      "\"min_cpu_ms\": %.4f, \"update_ms\": %.4f, \"merge_ms\": %.4f, \"samples_per_s\": %.2f, "
      "\"peak_rss_mib\": %.1f, "
      "\"params_mib\": %.2f, \"moments_mib\": %.2f, \"gradient_mib\": %.2f, \"arena_mib\": %.2f, "
      "\"live_peak_mib\": %.2f, \"workspace_mib\": %.2f, \"device_gradients_mib\": %.2f, "
      "\"spilled_gradients_mib\": %.2f, \"results_mib\": %.2f, \"ops\": %zu, \"loss\": %.6f, "
      "\"gflop\": %.4f, \"peak_gflops\": %.1f, \"live_gradient_buffers\": %u, \"library\": "
      "\"%s\", \"params_digest\": \"%s\"}\n",
      (o.job.empty() ? o.workload : o.job).c_str(), o.level.c_str(), o.precision.c_str(),
      o.recompute.c_str(), o.tf32 ? "true" : "false", o.device.c_str(), o.threads, o.ests,
      worker.spec().batch_size, ms, *least, (*most - *least) / ms, median(times.cpu_ms),
      *std::min_element(times.cpu_ms.begin(), times.cpu_ms.end()), median(times.update_ms),
      median(times.merge_ms), 1e3 * worker.spec().batch_size * o.ests / ms,
      double(usage.ru_maxrss) / 1024.0, double(m.params) * kMib, double(m.moments) * kMib,
      double(m.gradient_slot) * kMib, double(m.arena) * kMib, double(m.arena_live_peak) * kMib,
      double(m.workspace) * kMib, double(m.device_gradients) * kMib,
      double(m.spilled_gradients) * kMib, result_bytes(worker.engine().graph()) * kMib,
      worker.engine().graph().ops.size(), double(times.loss),
      1e-9 * gpu::step_flops(worker.engine().graph()),
      gpu::peak_gflops(worker.engine().kernels().cpu_class), worker.live_gradient_buffers(),
      worker.engine().vendor_library().c_str(), worker.engine().params_digest().hex().c_str());
}

// One step of `many` and equally many local steps of `one`, each with its update. The two alternate
// after every local step, so a slow time of the machine affects both.
double round_against_one(Worker& many, Worker& one) {
  double many_s = 0.0, one_s = 0.0;
  const auto add = [](double& sum, const std::function<void()>& work) {
    const double begin = thread_seconds();
    work();
    sum += thread_seconds() - begin;
  };
  add(many_s, [&] { many.begin(); });
  for (VirtualRank rank = 0; rank < many.spec().max_p; ++rank) {
    add(one_s, [&] { one.step(); });
    add(many_s, [&] { many.local_step(rank); });
  }
  add(many_s, [&] { many.update(); });
  return one_s / many_s;
}

void print_against_one(Options options) {
  constexpr double kSeconds = 20;
  constexpr std::size_t kRounds = 9;
  Worker many(find_task(options), options);
  options.ests = 1;
  Worker one(find_task(options), options);
  round_against_one(many, one);
  std::vector<double> ratios;
  const double start = thread_seconds();
  while (ratios.size() < kRounds || thread_seconds() - start < kSeconds)
    ratios.push_back(round_against_one(many, one));
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) { return ratios[std::size_t(share * (ratios.size() - 1))]; };
  std::printf("{\"ratio\": %.4f, \"ratio_low\": %.4f, \"ratio_high\": %.4f}\n", at(0.5), at(0.1),
              at(0.9));
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  using namespace es::bench;
  const Options options = parse(argc, argv);
  if (options.against_one) {
    print_against_one(options);
    return 0;
  }
  Worker worker(find_task(options), options);
  // A thread that waits for a GPU or for other threads may use no processor.
  const bool in_one_thread = options.threads == 1 && options.device.starts_with("cpu");
  OpProfile profile(worker.engine().graph(),
                    in_one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
  measure(worker, options.warm);
  if (options.profile) worker.engine().set_observer(&profile);
  const Times times = measure(worker, options.steps);
  print_json(options, worker, times);
  if (options.profile) {
    std::optional<Floors> floors;
    if (options.device.starts_with("cpu"))
      floors.emplace(worker.engine().kernels().cpu_class, options.threads);
    profile.print(std::cerr, options.steps, median(in_one_thread ? times.cpu_ms : times.wall_ms),
                  floors ? &*floors : nullptr);
  }
  return 0;
}
