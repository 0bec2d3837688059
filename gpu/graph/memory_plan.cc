#include "gpu/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// 64 bytes: a line of the cache, and the widest vector register.
constexpr std::int64_t kAlignmentFloats = 16;

std::int64_t round_up(std::int64_t floats) {
  return (floats + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
}

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  const bool in_step = a.first <= b.last && b.first <= a.last;
  const bool in_evaluation = a.first <= b.evaluation_last && b.first <= a.evaluation_last;
  return in_step || in_evaluation;
}

// Bytes and bf16 numbers occupy whole floats, because the arena is counted in floats.
std::int64_t tensor_floats(const Tensor& t) {
  const std::int64_t count = t.shape.count();
  if (t.bf16) return (count + 1) / 2;
  return t.type == ElementType::kU8 ? (count + 3) / 4 : count;
}

// Groups tensors that share one block of memory (a disjoint-set forest). A block is identified by
// one of its tensors, the root. Views are merged first: whether an operator may work in place
// depends on the last reader of the whole block, and a view of its input may be read later.
class SharedBlocks {
 public:
  SharedBlocks(const Program& program, GradientsInForward early)
      : program_(program),
        graph_(program.graph),
        early_(early),
        parent_(graph_.tensors.size()),
        block_(graph_.tensors.size(), LiveBlock{0, -1, -1, -1}),
        outside_(graph_.tensors.size(), false),
        gradient_of_(graph_.tensors.size(), kNoParam) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const TensorId t : graph_.inputs) outside_[t] = true;
    for (const Constant& c : graph_.constants) outside_[c.tensor] = true;
    for (const Op& op : graph_.ops)
      if (op_def(op.kind).in_params) outside_[op.out[0]] = true;
    measure_lifetimes();
    for (const Op& op : graph_.ops)
      if (op_def(op.kind).is_view) merge(op.in[0], op.out[0]);
    for (const Op& op : graph_.ops)
      // Nothing but views reads it, and the caller after an evaluation.
      if (const TensorId t = evaluation_output(op); t != kNoTensor) block_[find(t)].last = -1;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      share_in_place(graph_.ops[i], static_cast<std::int64_t>(i));
    // After the others, because operators may work in place in the gradient array.
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (graph_.ops[i].kind == OpKind::kParameterGrad && !graph_.ops[i].in.empty())
        place_in_gradient(graph_.ops[i], static_cast<std::int64_t>(i));
  }

  TensorId find(TensorId t) const {
    while (parent_[t] != t) t = parent_[t];
    return t;
  }
  const LiveBlock& block(TensorId root) const { return block_[root]; }
  bool outside(TensorId root) const { return outside_[root]; }
  const std::vector<ParamId>& gradient_of() const { return gradient_of_; }

 private:
  void measure_lifetimes() {
    for (std::size_t t = 0; t < block_.size(); ++t)
      block_[t].floats = tensor_floats(graph_.tensors[t]);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const auto now = static_cast<std::int64_t>(i);
      // A result that nothing reads is live during its operator, because the kernel still writes
      // it.
      for (const TensorId t : graph_.ops[i].out) {
        block_[t].first = now;
        live_at(t, now);
      }
      for (const TensorId t : graph_.ops[i].in) live_at(t, now);
    }
    for (const TensorId t : graph_.outputs) keep(t);
    for (const TensorId t : {graph_.row_loss, graph_.row_weight, graph_.mean_loss})
      if (t != kNoTensor) keep(t);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (op_def(graph_.ops[i].kind).evaluation_output != nullptr) drop_from_evaluation(i);
  }

  // Such an operator writes nothing in an evaluation that is not read there, also if it has no
  // output that only an evaluation writes.
  void drop_from_evaluation(std::size_t index) {
    for (const TensorId t : graph_.ops[index].out)
      if (block_[t].evaluation_last == static_cast<std::int64_t>(index))
        block_[t].evaluation_last = -1;
  }

  void live_at(TensorId t, std::int64_t now) {
    block_[t].last = now;
    if (now < static_cast<std::int64_t>(program_.first_backward)) block_[t].evaluation_last = now;
  }

  // An evaluation runs no backward operator, so a tensor that is live until the first of them still
  // has its values when the evaluation ends.
  void keep(TensorId t) {
    const auto end = static_cast<std::int64_t>(program_.first_backward);
    block_[t].last = std::max(block_[t].last, end);
    block_[t].evaluation_last = end;
  }

  // Lets `from` use the memory of `into`. If one of the two lies outside the arena, it must be
  // `into`.
  void merge(TensorId into, TensorId from) {
    into = find(into);
    from = find(from);
    // The flag `outside` of the root stands for the whole block, so a member that lies outside must
    // be the root.
    ES_CHECK(block_[into].floats == block_[from].floats && !outside_[from]);
    parent_[from] = into;
    block_[into].first = std::min(block_[into].first, block_[from].first);
    block_[into].last = std::max(block_[into].last, block_[from].last);
    block_[into].evaluation_last =
        std::max(block_[into].evaluation_last, block_[from].evaluation_last);
  }

  void share_in_place(const Op& op, std::int64_t now) {
    if (op.out.empty()) return;
    const TensorId out = op.out[op_def(op.kind).in_place_output];
    for (const TensorId in : in_place_inputs(op)) {
      // Elements of another size would overwrite elements that are still to be read.
      if (Uses::at(graph_.tensors, in).bf16 != Uses::at(graph_.tensors, out).bf16) continue;
      const TensorId root = find(in);
      // The operator may overwrite an input only if it is the last reader. Samples, constants and
      // parameters, which lie outside the arena, keep their values.
      const bool dies_here = block_[root].last == now && !outside_[root];
      if (!dies_here || block_[root].floats != block_[find(out)].floats) continue;
      merge(root, out);
      // The kernels overwrite one input only, so the first possible one is taken.
      return;
    }
  }

  // An evaluation has no gradient array, and when the gradient is complete, others change it.
  void place_in_gradient(const Op& op, std::int64_t now) {
    const TensorId root = find(op.in[0]);
    const LiveBlock& b = block_[root];
    const bool in_time = early_ == GradientsInForward::kYes ||
                         b.first >= static_cast<std::int64_t>(program_.first_backward);
    if (outside_[root] || !in_time || b.evaluation_last >= 0 || b.last != now) return;
    if (b.floats != graph_.table[op.weight].count) return;
    outside_[root] = true;
    gradient_of_[root] = op.weight;
  }

  const Program& program_;
  const Graph& graph_;
  GradientsInForward early_;
  std::vector<TensorId> parent_;
  std::vector<LiveBlock> block_;      // valid for roots
  std::vector<bool> outside_;         // valid for roots
  std::vector<ParamId> gradient_of_;  // valid for roots
};

// Places the blocks in this order, each at the lowest free offset. Returns the length of the arena,
// or `give_up` as soon as the length reaches it.
std::int64_t place_in_order(std::span<const LiveBlock> blocks, std::span<const std::size_t> order,
                            std::int64_t give_up, std::vector<std::int64_t>& offset) {
  std::vector<std::size_t> placed;  // indices of blocks, sorted by offset
  std::int64_t length = 0;
  for (const std::size_t i : order) {
    const std::int64_t size = round_up(blocks[i].floats);
    std::int64_t at = 0;
    // `placed` is sorted by offset, so the first gap that is large enough is the lowest one.
    for (const std::size_t p : placed) {
      // Blocks with separate lifetimes may lie on the same addresses.
      if (!live_together(blocks[i], blocks[p])) continue;
      if (offset[p] >= at + size) break;
      at = std::max(at, offset[p] + round_up(blocks[p].floats));
    }
    offset[i] = at;
    length = std::max(length, at + size);
    if (length >= give_up) return give_up;
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [&](std::int64_t value, std::size_t p) { return value < offset[p]; });
    placed.insert(position, i);
  }
  return length;
}

// Returns live_peak() of a local step or of an evaluation: the blocks are live until `end`.
std::int64_t peak_until(std::span<const LiveBlock> blocks, std::int64_t LiveBlock::*end) {
  std::int64_t length = 0;
  // A change at the end + 1 is recorded, so the list has at least two entries more.
  for (const LiveBlock& b : blocks) length = std::max(length, b.*end + 2);
  std::vector<std::int64_t> change(static_cast<std::size_t>(length), 0);
  for (const LiveBlock& b : blocks) {
    if (b.*end < b.first) continue;
    // A block counts from its first operator up to and including its last one.
    change[static_cast<std::size_t>(b.first)] += round_up(b.floats);
    change[static_cast<std::size_t>(b.*end + 1)] -= round_up(b.floats);
  }
  std::int64_t peak = 0, live = 0;
  for (const std::int64_t c : change) peak = std::max(peak, live += c);
  return peak;
}

// Orders in which blocks are placed; the block with the largest key comes first. The best places of
// all blocks are hard to find (dynamic storage allocation), and none of these orders is best for
// every model, so all are tried.
using Key = std::int64_t (*)(const LiveBlock&);
constexpr Key kOrders[] = {
    [](const LiveBlock& b) { return b.floats; },
    [](const LiveBlock& b) { return b.last - b.first; },
    [](const LiveBlock& b) { return b.floats * (b.last - b.first + 1); },
    [](const LiveBlock& b) { return -b.first; },
    [](const LiveBlock& b) { return b.last; },
};

}  // namespace

std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks) {
  const std::int64_t peak = live_peak(blocks);
  std::vector<std::int64_t> best, offset(blocks.size(), 0);
  std::int64_t shortest = INT64_MAX;
  for (const Key key : kOrders) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Equal keys are ordered by size and then by index, so the plan is the same on every machine.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const std::int64_t left = key(blocks[a]), right = key(blocks[b]);
      return left != right ? left > right : blocks[a].floats > blocks[b].floats;
    });
    const std::int64_t length = place_in_order(blocks, order, shortest, offset);
    if (length < shortest) {
      shortest = length;
      best = offset;
    }
    // No plan is shorter than the most floats that are live at one operator.
    if (shortest == peak) break;
  }
  return best;
}

std::int64_t live_peak(std::span<const LiveBlock> blocks) {
  return std::max(peak_until(blocks, &LiveBlock::last),
                  peak_until(blocks, &LiveBlock::evaluation_last));
}

MemoryPlan plan_memory(const Program& program, GradientsInForward early) {
  const SharedBlocks shared(program, early);
  const auto tensors = static_cast<TensorId>(program.graph.tensors.size());
  MemoryPlan plan;
  plan.gradient_of = shared.gradient_of();
  plan.offset.assign(program.graph.tensors.size(), MemoryPlan::kOutside);
  std::vector<TensorId> roots;
  std::vector<LiveBlock> blocks;
  for (TensorId t = 0; t < tensors; ++t) {
    plan.owner.push_back(shared.find(t));
    // Fusion leaves tensors that no operator writes any more. They need no memory.
    const bool used = shared.block(t).first >= 0;
    if (plan.owner.back() != t || shared.outside(t) || !used) continue;
    roots.push_back(t);
    blocks.push_back(shared.block(t));
  }
  const std::vector<std::int64_t> placed = place_blocks(blocks);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    plan.offset[roots[i]] = placed[i];
    plan.arena_floats = std::max(plan.arena_floats, placed[i] + round_up(blocks[i].floats));
  }
  for (TensorId t = 0; t < tensors; ++t) plan.offset[t] = plan.offset[plan.owner[t]];
  plan.live_peak_floats = live_peak(blocks);
  return plan;
}

}  // namespace es::gpu
