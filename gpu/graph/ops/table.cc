// Collects the entries of all topics.
#include <algorithm>
#include <array>
#include <cstring>

#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

using Table = std::array<const Operator*, kOpKinds>;

Table make_table() {
  Table table = {};
  for (const std::span<const Operator> topic :
       {attention_operators(), conv_operators(), elementwise_operators(), embedding_operators(),
        linear_loss_operators(), loss_operators(), move_operators(), norm_operators(),
        parameter_operators(), pool_operators(), product_operators(), program_operators(),
        recurrent_operators(), reduce_operators(), state_operators()})
    for (const Operator& entry : topic) {
      const Operator*& place = table[static_cast<std::size_t>(entry.kind)];
      // Two entries of one kind, or a kind without an entry, end the program at its first use of
      // the table.
      ES_CHECK_MSG(place == nullptr, entry.name);
      place = &entry;
    }
  ES_CHECK(std::find(table.begin(), table.end(), nullptr) == table.end());
  return table;
}

}  // namespace

const Operator& op_def(OpKind kind) {
  static const Table table = make_table();
  return *table[static_cast<std::size_t>(kind)];
}

std::size_t op_workspace_floats(const KernelTable& kernels, const OpShapes& op, int threads) {
  const auto floats = op_def(op.op.kind).workspace.cpu;
  return floats == nullptr ? 0 : floats(kernels, op, threads);
}

std::size_t op_workspace_floats(const cuda::DeviceKernels& kernels, const OpShapes& op) {
  const auto floats = op_def(op.op.kind).workspace.device;
  return floats == nullptr ? 0 : floats(kernels, op);
}

void copy_words(const OnCpu&, const OpRun& run, std::int64_t count, const float* from, float* to) {
  if (from == to) return;
  run.ranges({count, kGrainFloats, run.threads()}, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

void copy_words(const OnDevice& on, const OpRun&, std::int64_t count, const float* from,
                float* to) {
  if (from == to) return;
  // A copy of one dimension: the words have the same order in both places.
  BlockCopy copy;
  copy.size.back() = count;
  copy.source_stride.back() = copy.target_stride.back() = 1;
  on(on.kernels.block_copy, copy, from, to);
}

void run_op(const KernelTable& kernels, const OpRun& run) {
  op_def(run.op.kind).run.cpu({kernels, run.buffers.key}, run);
}

void queue_op(const OnDevice& on, const OpRun& run) {
  ES_CHECK(!run.buffers.clear_padding && run.buffers.parallel == nullptr);
  op_def(run.op.kind).run.device(on, run);
}

}  // namespace es::gpu
