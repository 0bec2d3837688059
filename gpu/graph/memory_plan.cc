#include "gpu/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kAlignmentFloats = 16;

std::int64_t round_up(std::int64_t floats) {
  return (floats + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
}

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::int64_t tensor_floats(const Tensor& t) {
  const std::int64_t count = t.shape.count();
  return t.type == ElementType::kF32 ? count : (count + 3) / 4;
}

// Inputs whose memory the operator's first output may take over, best first: the kernels read and
// write these element for element.
std::vector<TensorId> in_place_inputs(const Op& op) {
  switch (op.kind) {
    case OpKind::kRelu:
      return {op.in[0]};
    case OpKind::kAdd:
      return {op.in[0], op.in[1]};
    case OpKind::kReluGrad:
      return {op.in[1], op.in[0]};
    case OpKind::kBatchNormGrad:
      return {op.in[1]};
    default:
      return {};
  }
}

// Sets of tensors that share one block: a block is named by one of its tensors.
class SharedBlocks {
 public:
  explicit SharedBlocks(const Program& program)
      : graph_(program.graph),
        parent_(graph_.tensors.size()),
        block_(graph_.tensors.size(), LiveBlock{0, -1, -1}) {
    std::iota(parent_.begin(), parent_.end(), 0);
    measure_lifetimes();
    for (const Op& op : graph_.ops)
      if (op.kind == OpKind::kView) merge(op.in[0], op.out[0]);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      share_in_place(graph_.ops[i], static_cast<std::int64_t>(i));
  }

  TensorId find(TensorId t) const {
    while (parent_[t] != t) t = parent_[t];
    return t;
  }
  const LiveBlock& block(TensorId root) const { return block_[root]; }

 private:
  void measure_lifetimes() {
    for (std::size_t t = 0; t < block_.size(); ++t)
      block_[t].floats = tensor_floats(graph_.tensors[t]);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const auto now = static_cast<std::int64_t>(i);
      for (const TensorId t : graph_.ops[i].out) block_[t].first = block_[t].last = now;
      for (const TensorId t : graph_.ops[i].in) block_[t].last = now;
    }
    const auto end = static_cast<std::int64_t>(graph_.ops.size()) - 1;
    for (const TensorId t : {graph_.logits, graph_.row_loss, graph_.mean_loss})
      block_[t].last = end;
  }

  void merge(TensorId into, TensorId from) {
    into = find(into);
    from = find(from);
    ES_CHECK(block_[into].floats == block_[from].floats);
    parent_[from] = into;
    block_[into].first = std::min(block_[into].first, block_[from].first);
    block_[into].last = std::max(block_[into].last, block_[from].last);
  }

  void share_in_place(const Op& op, std::int64_t now) {
    for (const TensorId in : in_place_inputs(op)) {
      const TensorId root = find(in);
      const bool dies_here = block_[root].last == now && root != find(graph_.input);
      if (!dies_here || block_[root].floats != block_[find(op.out[0])].floats) continue;
      merge(root, op.out[0]);
      return;
    }
  }

  const Graph& graph_;
  std::vector<TensorId> parent_;
  std::vector<LiveBlock> block_;  // valid at roots
};

}  // namespace

std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return blocks[a].floats > blocks[b].floats;
  });
  std::vector<std::int64_t> offset(blocks.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    const std::int64_t size = round_up(blocks[i].floats);
    std::int64_t at = 0;
    for (const std::size_t p : placed) {
      if (!live_together(blocks[i], blocks[p])) continue;
      if (offset[p] >= at + size) break;
      at = std::max(at, offset[p] + round_up(blocks[p].floats));
    }
    offset[i] = at;
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [&](std::int64_t value, std::size_t p) { return value < offset[p]; });
    placed.insert(position, i);
  }
  return offset;
}

std::int64_t live_peak(std::span<const LiveBlock> blocks) {
  std::int64_t peak = 0;
  for (const LiveBlock& at : blocks) {  // live memory only grows where a block begins
    std::int64_t live = 0;
    for (const LiveBlock& b : blocks)
      if (b.first <= at.first && at.first <= b.last) live += round_up(b.floats);
    peak = std::max(peak, live);
  }
  return peak;
}

MemoryPlan plan_memory(const Program& program) {
  const SharedBlocks shared(program);
  const auto tensors = static_cast<TensorId>(program.graph.tensors.size());
  const TensorId input = shared.find(program.graph.input);
  std::vector<TensorId> roots;
  std::vector<LiveBlock> blocks;
  for (TensorId t = 0; t < tensors; ++t) {
    if (shared.find(t) != t || t == input) continue;
    roots.push_back(t);
    blocks.push_back(shared.block(t));
  }
  const std::vector<std::int64_t> placed = place_blocks(blocks);
  MemoryPlan plan;
  plan.offset.assign(program.graph.tensors.size(), MemoryPlan::kInput);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    plan.offset[roots[i]] = placed[i];
    plan.arena_floats = std::max(plan.arena_floats, placed[i] + round_up(blocks[i].floats));
  }
  for (TensorId t = 0; t < tensors; ++t) plan.offset[t] = plan.offset[shared.find(t)];
  plan.live_peak_floats = live_peak(blocks);
  return plan;
}

}  // namespace es::gpu
