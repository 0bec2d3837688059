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

// Chooses places for blocks one after the other. Some blocks have their places from the beginning.
class Places {
 public:
  // `blocks` begins with those that get a place. offset[i] is the place of the others already.
  // `given` has the indices of the others, sorted by offset; they do not overlap.
  Places(std::span<const LiveBlock> blocks, std::span<const std::size_t> given,
         std::vector<std::int64_t>& offset)
      : blocks_(blocks), given_(given), placed_(given.begin(), given.end()), offset_(offset) {}

  // Puts block i where it takes no place that is free for longer than others: among the free places
  // that of the given blocks which are needed first, then the lowest one. Returns its end.
  std::int64_t place(std::size_t i) {
    const std::int64_t size = round_up(blocks_[i].floats);
    Choice best;
    std::int64_t at = 0;
    for (const std::size_t p : placed_) {
      // Blocks with separate lifetimes may lie on the same addresses.
      if (!live_together(blocks_[i], blocks_[p])) continue;
      // `placed_` is sorted by offset, so this is a gap between two blocks. Its ends are enough,
      // because the gradients of parameters appear in the order of the array or against it.
      if (offset_[p] >= at + size) {
        consider(at, size, best);
        consider(offset_[p] - size, size, best);
        // Without given blocks all places are equal, and this one is the lowest.
        if (given_.empty()) break;
      }
      at = std::max(at, end(p));
    }
    consider(at, size, best);
    offset_[i] = best.at;
    const auto position =
        std::upper_bound(placed_.begin(), placed_.end(), best.at,
                         [&](std::int64_t value, std::size_t p) { return value < offset_[p]; });
    placed_.insert(position, i);
    return best.at + size;
  }

 private:
  struct Choice {
    std::int64_t needed = INT64_MAX, at = INT64_MAX;
    auto operator<=>(const Choice&) const = default;
  };
  std::int64_t end(std::size_t i) const { return offset_[i] + round_up(blocks_[i].floats); }

  void consider(std::int64_t at, std::int64_t size, Choice& best) const {
    Choice choice{.at = at};
    auto g = std::partition_point(given_.begin(), given_.end(),
                                  [&](std::size_t i) { return end(i) <= at; });
    for (; g != given_.end() && offset_[*g] < at + size; ++g)
      choice.needed = std::min(choice.needed, blocks_[*g].first);
    best = std::min(best, choice);
  }

  std::span<const LiveBlock> blocks_;
  std::span<const std::size_t> given_;
  std::vector<std::size_t> placed_;  // indices of blocks, sorted by offset
  std::vector<std::int64_t>& offset_;
};

// Places the blocks in this order. Returns the end of the last one, or `give_up` as soon as an end
// reaches it.
std::int64_t place_in_order(std::span<const std::size_t> order, std::int64_t give_up,
                            Places places) {
  std::int64_t length = 0;
  for (const std::size_t i : order) {
    length = std::max(length, places.place(i));
    if (length >= give_up) return give_up;
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

// Returns for each parameter the operator from which on its place in the gradient array has its
// gradient, or a part of it.
std::vector<std::int64_t> gradient_births(const Program& program, const SharedBlocks& shared) {
  const Graph& graph = program.graph;
  const auto end = static_cast<std::int64_t>(graph.ops.size());
  std::vector<std::int64_t> birth(graph.table.params().size(), end);
  const auto born = [&](ParamId id, std::int64_t at) {
    if (id != kNoParam) birth[id] = std::min(birth[id], at);
  };
  for (std::int64_t i = 0; i < end; ++i) {
    const Op& op = graph.ops[i];
    if (op_def(op.kind).writes_weight_grad) born(op.weight, i);
    if (op_def(op.kind).writes_bias_grad) born(op.bias, i);
  }
  for (std::size_t t = 0; t < graph.tensors.size(); ++t)
    born(shared.gradient_of()[t], shared.block(static_cast<TensorId>(t)).first);
  return birth;
}

// A line of addresses in which the gradient array comes first and then the arena.
class GradientsAndArena {
 public:
  explicit GradientsAndArena(const Program& program)
      : floats_(program.graph.table.trained_floats()),
        end_(static_cast<std::int64_t>(program.graph.ops.size())) {
    // No block lies in both.
    taken_.push_back({{kAlignmentFloats, 0, end_, -1}, floats_});
  }

  // Reserves the places of the gradients from the operators on that write them.
  void take_gradients(const ParamTable& table, const std::vector<std::int64_t>& birth) {
    for (std::size_t p = 0; p < table.trained().size(); ++p) {
      const std::int64_t begin = table.trained()[p].offset;
      const std::int64_t padded_end = table.padded_end(static_cast<ParamId>(p));
      taken_.push_back({{padded_end - begin, birth[p], end_, -1}, begin});
    }
  }

  const std::vector<PlacedBlock>& taken() const { return taken_; }
  std::int64_t arena_begin() const { return floats_ + kAlignmentFloats; }

 private:
  std::int64_t floats_, end_;
  std::vector<PlacedBlock> taken_;
};

// The blocks that need memory, each with the tensor that stands for it.
struct PlannedBlocks {
  std::vector<TensorId> roots;
  std::vector<LiveBlock> blocks;
};

TensorPlaces no_places(std::size_t tensors) {
  const std::vector<std::int64_t> outside(tensors, TensorPlaces::kOutside);
  return {outside, outside};
}

// Places blocks in the arena, and adds what this needs to the plan.
TensorPlaces place_in_arena(const PlannedBlocks& planned, MemoryPlan& plan) {
  TensorPlaces places = no_places(plan.owner.size());
  const std::vector<std::int64_t> offset = place_blocks(planned.blocks);
  for (std::size_t i = 0; i < offset.size(); ++i) {
    places.in_arena[planned.roots[i]] = offset[i];
    plan.arena_floats = std::max(plan.arena_floats, offset[i] + round_up(planned.blocks[i].floats));
  }
  plan.live_peak_floats = live_peak(planned.blocks);
  return places;
}

// The same where blocks may lie in the gradient array too.
TensorPlaces place_in_both(const PlannedBlocks& planned, const GradientsAndArena& memory,
                           MemoryPlan& plan) {
  TensorPlaces places = no_places(plan.owner.size());
  const std::vector<std::int64_t> address = place_blocks(planned.blocks, memory.taken());
  std::vector<LiveBlock> all = planned.blocks;
  for (const PlacedBlock& taken : memory.taken()) all.push_back(taken.block);
  for (std::size_t i = 0; i < address.size(); ++i) {
    const std::int64_t in_arena = address[i] - memory.arena_begin();
    if (in_arena >= 0) {
      places.in_arena[planned.roots[i]] = in_arena;
      plan.arena_floats =
          std::max(plan.arena_floats, in_arena + round_up(planned.blocks[i].floats));
    } else {
      places.in_gradients[planned.roots[i]] = address[i];
    }
  }
  plan.live_peak_floats = std::max(plan.live_peak_floats, live_peak(all) - memory.arena_begin());
  return places;
}

// Returns the blocks that one of the two runs uses, as if it was the only one. `end` is the end of
// their lifetimes in it.
PlannedBlocks used_in_run(const PlannedBlocks& planned, std::int64_t LiveBlock::*end) {
  PlannedBlocks used;
  for (std::size_t i = 0; i < planned.blocks.size(); ++i) {
    const LiveBlock& block = planned.blocks[i];
    if (block.*end < block.first) continue;
    used.roots.push_back(planned.roots[i]);
    used.blocks.push_back({.floats = block.floats, .first = block.first, .last = block.*end});
  }
  return used;
}

}  // namespace

std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks,
                                       std::span<const PlacedBlock> placed) {
  std::vector<LiveBlock> all(blocks.begin(), blocks.end());
  std::vector<std::int64_t> offset(blocks.size(), 0), best;
  std::vector<std::size_t> given;
  for (const PlacedBlock& p : placed) {
    given.push_back(all.size());
    all.push_back(p.block);
    offset.push_back(p.offset);
  }
  std::sort(given.begin(), given.end(),
            [&](std::size_t a, std::size_t b) { return offset[a] < offset[b]; });
  const std::int64_t peak = live_peak(all);
  std::int64_t shortest = INT64_MAX;
  for (const Key key : kOrders) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Equal keys are ordered by size and then by index, so the plan is the same on every machine.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const std::int64_t left = key(blocks[a]), right = key(blocks[b]);
      return left != right ? left > right : blocks[a].floats > blocks[b].floats;
    });
    const std::int64_t length = place_in_order(order, shortest, {all, given, offset});
    if (length < shortest) {
      shortest = length;
      best = offset;
    }
    // No plan is shorter than the most floats that are live at one operator, unless the placed
    // blocks alone are longer than the others.
    if (shortest <= peak) break;
  }
  best.resize(blocks.size());
  return best;
}

std::int64_t tensor_floats(const Tensor& tensor) {
  const std::int64_t count = tensor.shape.count();
  if (tensor.bf16) return (count + 1) / 2;
  return tensor.type == ElementType::kU8 ? (count + 3) / 4 : count;
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
  PlannedBlocks planned;
  for (TensorId t = 0; t < tensors; ++t) {
    plan.owner.push_back(shared.find(t));
    // Fusion leaves tensors that no operator writes any more. They need no memory.
    const bool used = shared.block(t).first >= 0;
    if (plan.owner.back() != t || shared.outside(t) || !used) continue;
    planned.roots.push_back(t);
    planned.blocks.push_back(shared.block(t));
  }
  if (early == GradientsInForward::kNo) {
    plan.step = place_in_arena(planned, plan);
    plan.evaluation = plan.step;
  } else {
    GradientsAndArena memory(program);
    plan.evaluation =
        place_in_both(used_in_run(planned, &LiveBlock::evaluation_last), memory, plan);
    memory.take_gradients(program.graph.table, gradient_births(program, shared));
    plan.step = place_in_both(used_in_run(planned, &LiveBlock::last), memory, plan);
  }
  for (TensorPlaces* places : {&plan.step, &plan.evaluation})
    for (std::vector<std::int64_t>* offset : {&places->in_arena, &places->in_gradients})
      for (TensorId t = 0; t < tensors; ++t) (*offset)[t] = (*offset)[plan.owner[t]];
  return plan;
}

}  // namespace es::gpu
