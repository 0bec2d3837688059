// Evaluations: of the model of the job, and of a model with the same parameters that has no loss.
#include <algorithm>
#include <bit>
#include <utility>

#include "gpu/engine/engine.h"
#include "gpu/engine/if_memory_suffices.h"
#include "gpu/graph/arithmetic.h"
#include "gpu/graph/fuse.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// Returns the mean of each sample's rows. The sums use double precision; they are metrics and never
// reach a parameter.
std::vector<double> sample_means(std::span<const float> rows, std::uint64_t samples,
                                 std::int64_t rows_per_sample) {
  std::vector<double> means(samples, 0.0);
  for (std::uint64_t i = 0; i < samples; ++i) {
    for (const float row : rows.subspan(i * rows_per_sample, rows_per_sample))
      means[i] += static_cast<double>(row);
    means[i] /= static_cast<double>(rows_per_sample);
  }
  return means;
}

// Returns the weights of rows with these labels, which are integers: a negative one takes no part.
std::vector<float> weights_of_labels(std::span<const float> labels) {
  std::vector<float> weights;
  for (const float label : labels)
    weights.push_back(std::bit_cast<std::int32_t>(label) < 0 ? 0.0F : 1.0F);
  return weights;
}

bool same_places(const ParamTable& a, const ParamTable& b) {
  return std::ranges::equal(a.params(), b.params(), [](const ParamInfo& x, const ParamInfo& y) {
    return x.name == y.name && x.offset == y.offset && x.torch_shape == y.torch_shape;
  });
}

}  // namespace

std::vector<double> Engine::sample_weights(const Graph& graph, std::uint64_t count) const {
  const TensorId rows = graph.row_weight;
  if (rows == kNoTensor) return std::vector<double>(count, 1.0);
  const std::span<const float> words = runner_->values(rows);
  const bool labels = graph.tensors[static_cast<std::size_t>(rows)].type == ElementType::kI32;
  return labels ? sample_means(weights_of_labels(words), count, graph.rows_per_sample)
                : sample_means(words, count, graph.rows_per_sample);
}

bool Engine::evaluates_others() const {
  return optimizer_.averages() || std::ranges::any_of(states_, [](const ParamState& state) {
           return state.name == kEvaluatedState;
         });
}

// The parameters of an evaluation. A device gets those that are only evaluated once, and its own
// parameters back before the next step (use_parameters()).
Result<const float*> Engine::evaluated_params() {
  // Each of several losses makes its first step in the first iteration.
  const Version first = updates_ == nullptr ? 1 : updates_->turns.steps_of(1);
  if (!evaluates_others() || version() < first) return replica_.params.data();
  ES_CHECK_MSG(holds_all(), "the weights of evaluations need all moments");
  const std::int64_t trained = table_.trained_floats(), all = table_.total_floats();
  const float* const average = optimizer_.averages() ? replica_.moments.back().data() : nullptr;
  const bool whole = average != nullptr && trained == all;
  if (!std::exchange(evaluates_average_, true)) {
    ES_RETURN_IF_ERROR(fetch_replica());
    runner_->params_changed();
    if (!whole) {
      if (averaged_.floats() != all) averaged_ = AlignedBuffer(all, "evaluated parameters");
      std::copy_n(replica_.params.data(), all, averaged_.data());
      if (average != nullptr)
        std::copy_n(average, trained, averaged_.data());
      else
        use_evaluated(table_, states_, replica_.moments, averaged_.data());
    }
  }
  return whole ? average : averaged_.data();
}

void Engine::use_parameters() {
  if (std::exchange(evaluates_average_, false)) runner_->params_changed();
}

Result<EvalBatch> Engine::evaluate(const Batch& full_batch, std::uint64_t count,
                                   std::uint64_t number, float* free_slot) {
  ES_CHECK(!replica_.contexts.empty() && full_batch.program < runner_->programs());
  const Graph& graph = runner_->graph(full_batch.program);
  const auto samples = static_cast<std::uint64_t>(graph.batch);
  ES_CHECK(count >= 1 && count <= samples);
  ES_RETURN_IF_ERROR(usable_);
  ES_RETURN_IF_ERROR(check_fields(full_batch));
  const auto params = evaluated_params();
  if (!params) return params.error();
  // Evaluation always uses the statistics of rank 0, whichever ranks this worker runs. Its random
  // numbers are the same at every version, so that the losses of two versions can be compared.
  const StepInput input{
      .stats = replica_.contexts[0].stats.data(),
      .batch = full_batch,
      .key = {
          .seed = spec_.seed, .step = static_cast<std::uint32_t>(number), .rank = kEvaluationRank}};
  ES_RETURN_IF_ERROR(
      if_memory_suffices(spec_, [&] { return runner_->run_eval(*params, input, free_slot); }));
  EvalBatch result;
  for (const TensorId t : graph.outputs) {
    // The rows of the samples behind the first `count` are filled up by the caller and are left
    // out.
    const std::span<const float> values = runner_->values(t);
    result.outputs.push_back(values.first(values.size() / samples * count));
  }
  result.losses = sample_means(runner_->values(graph.row_loss), count, graph.rows_per_sample);
  result.weights = sample_weights(graph, count);
  // values() returns no error of the device, so the device is asked once after all copies.
  ES_RETURN_IF_ERROR(runner_->check());
  return result;
}

Status Engine::add_forward(Graph model) {
  if (!same_places(model.table, table_))
    return usage_error("model " + model.name +
                       " has other parameters than the model of the engine");
  return if_memory_suffices(spec_, [&]() -> Status {
    model.bf16 = spec_.precision == "bf16";
    model = choose_arithmetic(std::move(model), spec_.arithmetic);
    std::vector<Program> programs;
    programs.push_back(compile_forward(std::move(model)));
    auto runner = make_runner(std::move(programs));
    if (!runner) return runner.error();
    forward_ = *std::move(runner);
    return {};
  });
}

Result<std::vector<std::span<const float>>> Engine::evaluate_forward(const Batch& batch) {
  ES_CHECK(forward_ != nullptr && !replica_.contexts.empty());
  ES_RETURN_IF_ERROR(usable_);
  const Graph& graph = forward_->graph();
  // The other numbers are results of earlier evaluations, which may be many.
  const auto wrong = find_wrong(graph, batch, Values::kIntegers);
  if (wrong) return wrong->error();
  const auto params = evaluated_params();
  if (!params) return params.error();
  const StepInput input{.stats = replica_.contexts[0].stats.data(),
                        .batch = batch,
                        .key = {.seed = spec_.seed, .rank = kEvaluationRank}};
  ES_RETURN_IF_ERROR(
      if_memory_suffices(spec_, [&] { return forward_->run_eval(*params, input, nullptr); }));
  std::vector<std::span<const float>> outputs;
  for (const TensorId t : graph.outputs) outputs.push_back(forward_->values(t));
  ES_RETURN_IF_ERROR(forward_->check());
  return outputs;
}

}  // namespace es::gpu
