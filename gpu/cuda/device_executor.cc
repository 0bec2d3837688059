#include "gpu/cuda/device_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpu/graph/dense_op.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {
namespace {

std::int64_t max_workspace(const Program& program, const DeviceKernels& kernels) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, {program.graph, op}));
  return static_cast<std::int64_t>(floats);
}

// Error (failure): a tensor has more elements than kernels of a device number.
Status check_sizes(const Graph& graph) {
  for (const Op& op : graph.ops)
    for (const TensorId t : op.out)
      if (const std::int64_t count = graph.shape(t).count(); count > kDeviceTensorMax)
        return failure(op.name + " (" + op_name(op.kind) + "): a result of " +
                       std::to_string(count) + " elements: a GPU takes at most " +
                       std::to_string(kDeviceTensorMax) + ", so use smaller mini-batches");
  return {};
}

// The workspace of a kernel of a library, in whole lines of memory.
std::int64_t library_floats(const DeviceVendorKernel& kernel) {
  constexpr std::size_t kLine = 256;  // bytes
  const std::size_t lines = (kernel.workspace_bytes() + kLine - 1) / kLine;
  return static_cast<std::int64_t>(lines * kLine / sizeof(float));
}

}  // namespace

Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    Program program, std::unique_ptr<Device> device, const std::vector<Bucket>& buckets,
    std::unique_ptr<DeviceVendorLibrary> vendor, std::uint32_t device_sums) {
  std::vector<Program> programs;
  programs.push_back(std::move(program));
  return create(std::move(programs), std::move(device), buckets, std::move(vendor), device_sums);
}

Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    std::vector<Program> programs, std::unique_ptr<Device> device,
    const std::vector<Bucket>& buckets, std::unique_ptr<DeviceVendorLibrary> vendor,
    std::uint32_t device_sums) {
  for (const Program& program : programs) ES_RETURN_IF_ERROR(check_sizes(program.graph));
  std::unique_ptr<DeviceExecutor> executor(
      new DeviceExecutor(std::move(programs), std::move(device), std::move(vendor)));
  ES_RETURN_IF_ERROR(executor->device_->begin());
  ES_RETURN_IF_ERROR(executor->make_streams());
  ES_RETURN_IF_ERROR(executor->allocate());
  const std::int64_t floats = executor->graph().table.trained_floats();
  executor->reduction_ = std::make_unique<DeviceReduction>(*executor->device_, floats);
  ES_SET(executor->gradients_, DeviceGradients::create(*executor->device_, buckets, floats,
                                                       device_sums, *executor->reduction_->pool()));
  executor->updater_ =
      std::make_unique<DeviceUpdater>(*executor->device_, executor->graph().table,
                                      *executor->gradients_, executor->compute_, executor->params_);
  for (Loaded& loaded : executor->programs_) ES_RETURN_IF_ERROR(executor->load(loaded, buckets));
  ES_RETURN_IF_ERROR(executor->try_vendor_kernels());
  return executor;
}

DeviceExecutor::DeviceExecutor(std::vector<Program> programs, std::unique_ptr<Device> device,
                               std::unique_ptr<DeviceVendorLibrary> vendor)
    : device_(std::move(device)), vendor_(std::move(vendor)) {
  if (vendor_) vendor_refusals_ = vendor_->not_working();
  for (Program& program : programs) {
    Loaded& loaded = programs_.emplace_back();
    loaded.program = std::move(program);
    loaded.plan = plan_memory(loaded.program);
    workspace_floats_ =
        std::max(workspace_floats_, max_workspace(loaded.program, device_->kernels()));
    if (vendor_) bind_vendor(loaded);
  }
}

void DeviceExecutor::bind_vendor(Loaded& to) {
  const Graph& graph = to.graph();
  for (const Op& op : graph.ops) {
    std::unique_ptr<DeviceVendorKernel> kernel;
    const Status bound = device_->call_library([&]() -> Status {
      ES_SET(kernel, vendor_kernel(graph, op));
      return {};
    });
    if (!bound.ok()) vendor_refusals_.push_back(vendor_refusal(op, bound.error()));
    if (kernel) {
      // All operators use one workspace, because they follow each other on one stream. Its size is
      // that of the largest request.
      workspace_floats_ = std::max(workspace_floats_,
                                   library_floats(*kernel) + library_converted_floats({graph, op}));
    }
    to.vendor_ops.push_back(std::move(kernel));
  }
}

Result<std::unique_ptr<DeviceVendorKernel>> DeviceExecutor::vendor_kernel(const Graph& graph,
                                                                          const Op& op) {
  if (is_conv(op.kind)) return vendor_->conv(op.conv, conv_pass(op.kind));
  if (!is_library_product(graph, op.kind)) return std::unique_ptr<DeviceVendorKernel>();
  return vendor_->gemm(product_of(graph, op));
}

// Makes what depends on the memory of the device.
Status DeviceExecutor::load(Loaded& to, const std::vector<Bucket>& buckets) {
  ES_SET(to.checks, FiniteChecks::create(*device_, to.graph()));
  cut_pieces(to, buckets);
  std::vector<const float*> constants;
  ES_RETURN_IF_ERROR(upload_constants(to.graph(), constants));
  // Without GradientsInForward::kYes an evaluation has the same places.
  to.tensors =
      std::make_unique<TensorAddresses>(to.graph(), to.plan, to.plan.step, arena_, constants);
  to.tensors->bind_gradients(gradients_->gradient());
  return {};
}

// Runs each kernel of the library once on arbitrary contents of memory. Without this trial, a
// kernel that refuses its work would end this worker in its first step, and then the next worker in
// its first step.
Status DeviceExecutor::try_vendor_kernels() {
  for (program_ = 0; program_ < programs_.size(); ++program_) {
    bind(inputs_->present());
    Loaded& loaded = programs_[program_];
    for (std::size_t i = 0; i < loaded.vendor_ops.size(); ++i) {
      if (loaded.vendor_ops[i] == nullptr) continue;
      const Op& op = loaded.graph().ops[i];
      const RunBuffers memory = buffers();
      const Status ran = run_vendor(i, vendor_call(i, memory));
      // An error of the device itself cannot be repaired by the canonical kernel, so it ends the
      // creation. A refusal of the library only means that the canonical kernel runs.
      if (const Status alive = device_->synchronise(compute_); !alive.ok())
        return failure(op.name + " (" + op_name(op.kind) +
                       "): " + loaded.vendor_ops[i]->algorithm() + ": " + alive.error().message);
      if (ran.ok()) continue;
      vendor_refusals_.push_back(vendor_refusal(op, ran.error()));
      loaded.vendor_ops[i].reset();
    }
  }
  use(inputs_->present());
  // At D2 every output is searched, so that a GPU reports what the flags of a CPU report. No CPU
  // has the bits of vendor kernels. With them only visible results are searched, which reads far
  // less memory, and find_first_fault() names the operator of a bad step.
  scope_ = vendor_library().empty() ? FiniteChecks::Scope::kAll : FiniteChecks::Scope::kVisible;
  for (const Loaded& loaded : programs_) loaded.checks->set_scope(scope_);
  return {};
}

// The operands for a kernel of the library. Converted factors lie behind the library's workspace.
DenseCall DeviceExecutor::vendor_call(std::size_t index, const RunBuffers& buffers) {
  const Graph& graph = graph_now();
  const Op& op = graph.ops[index];
  DenseCall call = dense_call(graph, op, buffers);
  const OnDevice on{device_->kernels(), compute_, inputs_->key(variant_)};
  float* const behind = workspace_ + library_floats(*now().vendor_ops[index]);
  convert_for_library(on, {graph, op, buffers}, behind, call);
  return call;
}

Status DeviceExecutor::run_vendor(std::size_t index, const DenseCall& call) {
  return device_->call_library(
      [&] { return now().vendor_ops[index]->run(compute_, call.a, call.b, call.out, workspace_); });
}

std::string DeviceExecutor::vendor_algorithm(std::size_t index, std::size_t program) const {
  const auto& kernels = programs_[program].vendor_ops;
  return index < kernels.size() && kernels[index] ? kernels[index]->algorithm() : "";
}

std::string DeviceExecutor::vendor_library() const {
  const bool used = std::ranges::any_of(programs_, [](const Loaded& loaded) {
    return std::ranges::any_of(loaded.vendor_ops,
                               [](const auto& kernel) { return kernel != nullptr; });
  });
  return used ? vendor_->name() : "";
}

Result<float*> DeviceExecutor::device_floats(std::int64_t count, const char* what) {
  const auto memory = device_->allocate(bytes_of(std::max<std::int64_t>(count, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

Result<float*> DeviceExecutor::host_floats(std::int64_t count, const char* what) {
  const auto memory = device_->allocate_host(bytes_of(std::max<std::int64_t>(count, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

Status DeviceExecutor::make_streams() {
  ES_SET(compute_, device_->make_stream());
  for (Forward& forward : forwards_) ES_SET(forward.done, device_->make_event());
  ES_SET(step_done_, device_->make_event());
  return {};
}

Status DeviceExecutor::allocate() {
  const std::int64_t params = graph().table.total_floats(), stats = graph().table.stat_floats();
  std::int64_t arena = 0;
  std::vector<std::int64_t> batches;
  for (const Loaded& loaded : programs_) {
    arena = std::max(arena, loaded.plan.arena_floats);
    batches.push_back(loaded.graph().batch * loaded.graph().layout.words());
  }
  ES_SET(arena_, device_floats(arena, "activations and their gradients"));
  ES_SET(workspace_, device_floats(workspace_floats_, "the kernels' workspace"));
  ES_SET(params_.memory, device_floats(params, "the parameters"));
  for (Forward& forward : forwards_) {
    ES_SET(forward.next_stats, device_floats(stats, "statistics"));
    ES_SET(forward.host_next_stats, host_floats(stats, "statistics"));
    ES_SET(forward.host_loss, host_floats(1, "the loss"));
  }
  ES_SET(inputs_, DeviceInputs::create(*device_, std::move(batches), stats));
  return device_->check();
}

void DeviceExecutor::cut_pieces(Loaded& of, const std::vector<Bucket>& buckets) {
  of.pieces = {{0, of.program.first_backward}};
  // A piece ends where the gradient of a bucket is complete, so that the bucket can be merged and
  // sent while the next piece runs.
  for (const std::size_t last : bucket_ready_ops(of.program, buckets))
    of.pieces.push_back({of.pieces.back().end, last + 1});
  // Operators behind the last bucket, if there are any, belong to the last piece.
  of.pieces.back().end = of.graph().ops.size();
  of.recordings = std::make_unique<StepRecordings>(*device_, of.pieces.size());
}

Status DeviceExecutor::upload_constants(const Graph& graph, std::vector<const float*>& addresses) {
  for (const Constant& c : graph.constants) {
    const auto words = static_cast<std::int64_t>(c.words.size());
    float* memory = nullptr;
    ES_SET(memory, device_floats(words, "the model's constants"));
    device_->copy_in(compute_, memory, c.words.data(), bytes_of(words));
    addresses.push_back(memory);
  }
  return device_->synchronise(compute_);
}

void DeviceExecutor::params_changed() {
  params_.stale = true;
  // A forward pass that is already queued has used the old parameters. The new edition shows this
  // to forward_is_queued().
  ++params_.edition;
  inputs_->stats_changed();
}

std::string DeviceExecutor::slower_because() const {
  for (const Loaded& loaded : programs_)
    if (const std::string& why = loaded.recordings->why_none(); !why.empty())
      return "local steps are not CUDA graphs: " + why;
  if (gradients_->memory().pinned_floats != 0)
    return "sums of gradients over ESTs wait in host memory: the device has no room for all of "
           "them";
  if (!updater_->has_room())
    return "updates run on the host: the device has no room for the optimizer's moments";
  return {};
}

void DeviceExecutor::enter(const float* params, const StepInput& input) {
  // The copy must not overwrite parameters that the previous step still reads.
  if (params_.stale) {
    device_->wait(inputs_->stream(), step_done_);
    device_->copy_in(inputs_->stream(), params_.memory, params,
                     bytes_of(graph().table.total_floats()));
  }
  params_.stale = false;
  inputs_->enter(input, compute_);
  use(inputs_->present());
}

void DeviceExecutor::use(std::size_t variant) {
  program_ = inputs_->program(variant);
  bind(variant);
}

// Binds the program that is queued now to the memory of this variant.
void DeviceExecutor::bind(std::size_t variant) {
  variant_ = variant;
  now().tensors->bind_inputs(inputs_->words(variant));
  now().tensors->bind_params(params_.memory);
  now().checks->use(variant);
}

void DeviceExecutor::prefetch(const StepInput& input) {
  drop_next_forward();
  inputs_->prefetch(input);
}

RunBuffers DeviceExecutor::buffers() const {
  return {.tensors = now().tensors->data(),
          .params = params_.memory,
          .grads = gradients_->gradient(),
          .stats = inputs_->stats(variant_),
          .next_stats = forwards_[variant_].next_stats,
          .workspace = workspace_,
          .clear_padding = false};
}

void DeviceExecutor::launch(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Graph& graph = graph_now();
  const Op& op = graph.ops[index];
  if (index >= now().vendor_ops.size() || now().vendor_ops[index] == nullptr)
    return gpu::queue_op({device_->kernels(), compute_, inputs_->key(variant_)},
                         {graph, op, buffers, mode});
  const DenseCall call = vendor_call(index, buffers);
  // The library accepted this work in the trial. A refusal now could leave half of the work on the
  // stream, and the canonical kernel has other bits than those that the checkpoint records, so the
  // device is given up.
  if (const Status ran = run_vendor(index, call); !ran.ok())
    device_->lose(failure(device_->name() + ": " + ran.error().message));
  // The kernels of the libraries compute no bias. A canonical kernel adds it afterwards.
  if (!adds_bias(op)) return;
  const TensorShape& y = graph.shape(op.out[0]);
  const ChainStage bias{.kind = ChainKind::kAddRow, .operand = call.bias, .columns = y.row()};
  device_->kernels().chain(compute_, y.count(), call.out, &bias, 1, {}, inputs_->key(variant_),
                           call.out);
}

void DeviceExecutor::queue_op(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = graph_now().ops[index];
  if (observer_ != nullptr) observer_->begin_op(op);
  launch(index, mode, buffers);
  if (observer_ == nullptr) return;
  // The observer may read the results of the operator, so they must be complete.
  (void)device_->synchronise(compute_);  // a device error is reported by a later call
  observer_->end_op(op);
}

void DeviceExecutor::queue_operators(const Piece& piece, const RunBuffers& buffers) {
  for (std::size_t i = piece.first; i < piece.end; ++i) {
    now().checks->before(compute_, i, buffers);
    queue_op(i, RunMode::kTrain, buffers);
    now().checks->after(compute_, i, buffers);
  }
  now().checks->finish(compute_);
}

void DeviceExecutor::queue_piece(std::size_t piece, const RunBuffers& buffers) {
  const auto queue = [&] {
    queue_operators(now().pieces[piece], buffers);
    // The results of the forward pass leave behind the first piece, so the host sees them while the
    // backward pass runs.
    if (piece == 0) queue_results();
  };
  // An observer looks at the values after each operator. A recording runs as one unit and would
  // give it no chance.
  if (observer_ != nullptr) return queue();
  now().recordings->run(compute_, piece, variant_, queue);
}

void DeviceExecutor::queue_results() {
  const Forward& forward = forwards_[variant_];
  device_->copy_out(compute_, forward.host_loss, (*now().tensors)[graph_now().mean_loss],
                    sizeof(float));
  device_->copy_out(compute_, forward.host_next_stats, forward.next_stats,
                    bytes_of(graph().table.stat_floats()));
}

void DeviceExecutor::queue_forward() {
  now().checks->begin();
  queue_piece(0, buffers());
  device_->record(forwards_[variant_].done, compute_);
}

void DeviceExecutor::queue_backward() {
  for (std::size_t bucket = 0; bucket + 1 < now().pieces.size(); ++bucket) {
    queue_piece(1 + bucket, buffers());
    gradients_->queue_bucket(compute_, bucket);
  }
  // enter() waits for this event before it overwrites the parameters.
  device_->record(step_done_, compute_);
}

// Queues the forward pass of the next step. It may overwrite the arena, because stream order runs
// it after the last operator of the current step, and nothing reads the arena after that.
void DeviceExecutor::queue_next_forward() {
  if (observer_ != nullptr || !inputs_->has_next()) return;
  inputs_->wait_for_next(compute_);
  // The next forward pass has its own input, results and flags (its variant). It shares the arena
  // and the parameters with the present step.
  use(1 - inputs_->present());
  queue_forward();
  next_forward_of_ = params_.edition;
  use(inputs_->present());
}

bool DeviceExecutor::forward_is_queued(const StepInput& input) {
  const bool same = next_forward_of_ == params_.edition && inputs_->is_next(input);
  if (observer_ != nullptr || !same) drop_next_forward();
  return std::exchange(next_forward_of_, std::nullopt).has_value();
}

// Waits for a queued forward pass that will not be used, so that the memory that it writes can be
// used again. A device error is reported by a later call.
void DeviceExecutor::drop_next_forward() {
  if (next_forward_of_) (void)device_->synchronise(forwards_[1 - inputs_->present()].done);
  next_forward_of_.reset();
}

Result<LocalStepResult> DeviceExecutor::run_local_step(const LocalStep& step,
                                                       const OnBucketReady& on_bucket_ready) {
  ES_RETURN_IF_ERROR(device_->begin());
  // The places of the gradients are taken before any operator is queued, because it can fail.
  ES_RETURN_IF_ERROR(gradients_->begin(step.gradient));
  const bool has_forward = forward_is_queued(step.input());
  enter(step.params, step.input());
  if (!has_forward) queue_forward();
  queue_backward();
  // The device computes now. The host uses the time to check and to copy the mini-batch of the next
  // step.
  if (step.meanwhile) step.meanwhile();
  // The next forward pass is queued before the host waits for results, so the device never runs out
  // of work.
  queue_next_forward();
  auto results = take_results(step, on_bucket_ready);
  // The caller may reuse the memory of the next mini-batch after this function, so its copy must be
  // done.
  inputs_->finish_prefetch();
  return results;
}

Result<LocalStepResult> DeviceExecutor::take_results(const LocalStep& step,
                                                     const OnBucketReady& on_bucket_ready) {
  const Forward& results = forwards_[variant_];
  ES_RETURN_IF_ERROR(device_->synchronise(results.done));
  // The forward pass is examined first. Its statistics reach the caller only if it has no fault.
  const Fault forward = now().checks->fault(0, now().program.first_backward);
  if (forward.op != nullptr) return stop_at(forward);
  const std::size_t stat_bytes = bytes_of(graph().table.stat_floats());
  if (stat_bytes != 0) std::memcpy(step.next_stats, results.host_next_stats, stat_bytes);
  const std::vector<Piece>& pieces = now().pieces;
  for (std::size_t b = 0; b + 1 < pieces.size(); ++b) {
    // The event of the bucket lies behind all operators of its piece, so the flags of these
    // operators are final when take() returns.
    ES_RETURN_IF_ERROR(gradients_->take(b));
    const Fault fault = now().checks->fault(pieces[1 + b].first, pieces[1 + b].end);
    if (fault.op != nullptr) return stop_at(fault);
    on_bucket_ready(static_cast<std::uint32_t>(b));
  }
  return LocalStepResult{*results.host_loss, {}};
}

// Ends a step early. No work of the step is in progress when the function returns.
Result<LocalStepResult> DeviceExecutor::stop_at(const Fault& fault) {
  const float loss = *forwards_[variant_].host_loss;
  drop_next_forward();
  ES_RETURN_IF_ERROR(device_->synchronise(compute_));
  ES_RETURN_IF_ERROR(gradients_->synchronise());
  // If only visible results were searched, the flags do not name the first operator. The step is
  // then repeated with all outputs searched, on the same input and parameters.
  if (scope_ == FiniteChecks::Scope::kAll) return LocalStepResult{loss, fault};
  const auto first = find_first_fault();
  if (!first) return first.error();
  return LocalStepResult{loss, *first};
}

Result<Fault> DeviceExecutor::find_first_fault() {
  FiniteChecks& checks = *now().checks;
  checks.begin();
  checks.set_scope(FiniteChecks::Scope::kAll);
  queue_operators({0, graph_now().ops.size()}, buffers());
  checks.set_scope(scope_);
  ES_RETURN_IF_ERROR(device_->synchronise(compute_));
  const Fault fault = checks.fault(0, graph_now().ops.size());
  if (fault.op != nullptr) return fault;
  return failure(device_->name() +
                 ": a local step gave a value that is not finite, but the repeated step did not");
}

Status DeviceExecutor::run_eval(const float* params, const StepInput& input, float*) {
  ES_RETURN_IF_ERROR(device_->begin());
  drop_next_forward();
  enter(params, input);
  const RunBuffers run = buffers();
  for (std::size_t i = 0; i < now().program.first_backward; ++i)
    queue_op(i, RunMode::kEvaluate, run);
  return device_->synchronise(compute_);
}

std::span<const float> DeviceExecutor::values(TensorId t) const {
  const std::int64_t count = graph_now().shape(t).count();
  AlignedBuffer& copy = values_[t];
  if (copy.floats() != count) copy = AlignedBuffer(count, "a result");
  const bool bf16 = graph_now().tensors[static_cast<std::size_t>(t)].bf16;
  device_->copy_out(compute_, copy.data(), (*now().tensors)[t],
                    bf16 ? static_cast<std::size_t>(count) * sizeof(Bf16) : bytes_of(count));
  (void)device_->synchronise(compute_);  // a device error is reported by check()
  const auto* const numbers = reinterpret_cast<const Bf16*>(copy.data());
  // From the last one on, since the first half of the memory is overwritten.
  for (std::int64_t i = bf16 ? count : 0; i-- > 0;) copy.data()[i] = widened(numbers[i]);
  return {copy.data(), static_cast<std::size_t>(count)};
}

std::span<const float> DeviceExecutor::gradient(ParamId param) const {
  const ParamInfo& info = graph().table[param];
  gradient_copy_.resize(static_cast<std::size_t>(info.count));
  device_->copy_out(compute_, gradient_copy_.data(), gradients_->gradient() + info.offset,
                    bytes_of(info.count));
  (void)device_->synchronise(compute_);  // a device error is reported by check()
  return gradient_copy_;
}

}  // namespace es::gpu::cuda
