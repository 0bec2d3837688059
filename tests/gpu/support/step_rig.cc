#include "tests/gpu/support/step_rig.h"

#include <bit>

#include "gpu/params/initialise.h"
#include "proto/base/check.h"

namespace es::test {
namespace {

std::vector<float> random_words(const gpu::Graph& graph, std::mt19937_64& random) {
  std::vector<float> words;
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  for (const SampleField& field : graph.layout.fields) {
    std::uniform_int_distribution<std::int32_t> integer(field.low, field.high);
    for (std::int64_t i = 0; i < graph.batch * field.words(); ++i)
      words.push_back(field.type == FieldType::kF32 ? number(random)
                                                    : std::bit_cast<float>(integer(random)));
  }
  return words;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

}  // namespace

StepRig::StepRig(gpu::Program program, std::uint64_t seed, const RigOptions& options)
    : buckets(gpu::cut_buckets(program.graph.table, options.bucket_floats)),
      parallel(options.threads),
      params(program.graph.table.total_floats()),
      grads(program.graph.table.total_floats()),
      stats(gpu::initial_stats(program.graph.table)),
      next_stats(stats.size()),
      key{.seed = seed, .step = 3, .rank = 2} {
  std::mt19937_64 random(seed);
  gpu::initialise_params(program.graph.table, random(), params.data());
  words = random_words(program.graph, random);
  executor = std::make_unique<gpu::Executor>(
      std::move(program), gpu::kernel_table(options.cpu_class), buckets, parallel);
}

gpu::LocalStep StepRig::step() {
  return {.params = params.data(),
          .stats = stats.data(),
          .next_stats = next_stats.data(),
          .gradient = grads.data(),
          .batch = batch(),
          .key = key};
}

float StepRig::run() {
  return executor->run_local_step(step(), [](std::uint32_t) {})->loss;
}

std::vector<float> StepRig::evaluate() {
  ES_CHECK(executor->run_eval(params.data(), input(), nullptr).ok());
  std::vector<gpu::TensorId> results = graph().outputs;
  results.push_back(graph().row_loss);
  std::vector<float> all;
  for (const gpu::TensorId t : results) {
    const std::span<const float> values = executor->values(t);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<std::uint32_t> StepRig::step_bits() {
  std::vector<float> all{run()};
  all.insert(all.end(), grads.data(), grads.data() + grads.floats());
  all.insert(all.end(), next_stats.begin(), next_stats.end());
  return bits_of(all);
}

std::vector<std::uint32_t> StepRig::evaluation_bits() {
  return bits_of(evaluate());
}

}  // namespace es::test
