// Fuses moves that follow each other, with views possibly between them, into one move, and places
// moves where they keep the fewest floats alive.
#include <algorithm>
#include <utility>

#include "gpu/graph/fuse.h"
#include "gpu/graph/move_compose.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

class MoveFusion {
 public:
  explicit MoveFusion(Program program)
      : program_(std::move(program)),
        uses_(program_.graph),
        merged_(program_.graph.ops.size(), false) {}

  Program run() {
    std::vector<Op>& ops = program_.graph.ops;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].kind == OpKind::kMove)
        while (absorb_one(i)) continue;
    drop_marked(program_, merged_);
    return std::move(program_);
  }

 private:
  // Merges a move that feeds one of the inputs of operator `index`, and has no other reader, into
  // the operator. Returns false if there is none.
  bool absorb_one(std::size_t index) {
    Op& into = program_.graph.ops[index];
    for (std::size_t i = 0; i < into.in.size(); ++i) {
      views_.clear();
      const std::int64_t writer = move_behind(into.in[i], index);
      if (writer < 0) continue;
      const Op& first = program_.graph.ops[static_cast<std::size_t>(writer)];
      if (!merge(first, into, i)) continue;
      for (const TensorId t : first.in)
        // The inputs of the merged move are now read here, and keeps_no_more_alive() needs that for
        // the next merge.
        if (Uses::at(uses_.last_read, t) < static_cast<std::int64_t>(index))
          Uses::at(uses_.last_read, t) = static_cast<std::int64_t>(index);
      merged_[static_cast<std::size_t>(writer)] = true;
      for (const std::size_t view : views_) merged_[view] = true;
      return true;
    }
    return false;
  }

  // Returns the operator index of the move whose only result is `t`, or a tensor of which `t` is a
  // view, if only operator `reader` reads it; otherwise -1. Records the views on the way in
  // `views_`.
  std::int64_t move_behind(TensorId t, std::size_t reader) {
    while (true) {
      const std::int64_t writer = Uses::at(uses_.writer, t);
      if (writer < 0 || Uses::at(uses_.reads, t) != 1) return -1;
      const auto index = static_cast<std::size_t>(writer);
      // No operator crosses the boundary between the model's own operators and the gradients.
      if ((index < program_.first_backward) != (reader < program_.first_backward)) return -1;
      const Op& op = program_.graph.ops[index];
      // A view has the same words in the same order, so a move can read behind it.
      if (op_def(op.kind).is_view) {
        views_.push_back(index);
        t = op.in[0];
        continue;
      }
      const bool moves = op.kind == OpKind::kMove || op.kind == OpKind::kUpsample2;
      // A move with several outputs would have to stay for the other ones.
      if (!moves || op.out.size() != 1) return -1;
      std::vector<bool> passed = merged_;
      for (const std::size_t view : views_) passed[view] = true;
      return keeps_no_more_alive(program_.graph, uses_, passed, index, reader) ? writer : -1;
    }
  }

  bool merge(const Op& first, Op& into, std::size_t between) {
    // One input of `into` is replaced by all inputs of `first`.
    if (first.in.size() + into.in.size() - 1 > kMoveTensorsMax) return false;
    if (would_round(first, into)) return false;
    const std::vector<std::int64_t> first_inputs = words(first.in);
    const std::vector<std::int64_t> inputs = words(into.in), outputs = words(into.out);
    ComposeSizes sizes{.images = program_.graph.batch,
                       .between = inputs[between],
                       .first_inputs = first_inputs,
                       .second_inputs = inputs,
                       .second_outputs = outputs};
    const auto index = static_cast<std::int32_t>(between);
    std::optional<Move> move = composed(first.move, into.move, index, sizes);
    // The search first looks at one image only, which is much faster. If the moves differ between
    // images, it looks at the whole batch.
    sizes.images = 1;
    if (!move) move = composed(first.move, into.move, index, sizes);
    if (!move) return false;
    std::vector<TensorId> in = first.in;
    for (std::size_t i = 0; i < into.in.size(); ++i)
      if (i != between) in.push_back(into.in[i]);
    into.in = std::move(in);
    into.move = std::move(*move);
    return true;
  }

  // Whether the tensor between the two moves rounds numbers that the result would not round.
  bool would_round(const Op& first, const Op& into) const {
    const auto bf16 = [&](TensorId t) { return Uses::at(program_.graph.tensors, t).bf16; };
    return bf16(first.out[0]) && !std::ranges::all_of(first.in, bf16) &&
           !std::ranges::all_of(into.out, bf16);
  }

  std::vector<std::int64_t> words(const std::vector<TensorId>& tensors) const {
    std::vector<std::int64_t> counts;
    for (const TensorId t : tensors) counts.push_back(program_.graph.shape(t).count());
    return counts;
  }

  Program program_;
  Uses uses_;
  std::vector<bool> merged_;        // [operator]: it has become a part of a later one
  std::vector<std::size_t> views_;  // views between the move and its reader
};

class MovePlacement {
 public:
  explicit MovePlacement(Program program)
      : program_(std::move(program)),
        uses_(program_.graph),
        live_behind_(live_behind(program_.graph)),
        early_(program_.graph.ops.size()),
        placed_(program_.graph.ops.size(), false) {}

  Program run() {
    for (std::size_t i = 0; i < program_.first_backward; ++i) place(i);
    std::vector<Op> ops;
    for (std::size_t i = 0; i < placed_.size(); ++i)
      if (!placed_[i]) take(i, ops);
    program_.graph.ops = std::move(ops);
    return std::move(program_);
  }

 private:
  // Puts the move `index`, and the views that it reads through, behind the operator that writes its
  // words, if fewer floats are live there. From there on the result, which is not larger, takes the
  // place of these words. Parameters have a place of their own, which would stay.
  void place(std::size_t index) {
    const Graph& graph = program_.graph;
    const Op& move = graph.ops[index];
    if (move.kind != OpKind::kMove || move.in.size() != 1 || move.out.size() != 1) return;
    if (graph.shape(move.out[0]).count() > graph.shape(move.in[0]).count()) return;
    std::vector<std::size_t> moved{index};
    std::int64_t writer = only_writer(move.in[0]);
    for (; writer >= 0 && def(writer).is_view; writer = only_writer(graph.ops[moved.back()].in[0]))
      moved.push_back(static_cast<std::size_t>(writer));
    if (writer < 0 || def(writer).in_params) return;
    const auto at = static_cast<std::size_t>(writer);
    if (live_behind_[at] >= live_behind_[index - 1]) return;
    early_[at].insert(early_[at].end(), moved.rbegin(), moved.rend());
    for (const std::size_t op : moved) placed_[op] = true;
  }

  // The writer of a tensor that is read once; else -1.
  std::int64_t only_writer(TensorId t) const {
    return Uses::at(uses_.reads, t) == 1 ? Uses::at(uses_.writer, t) : -1;
  }
  const Operator& def(std::int64_t op) const {
    return op_def(program_.graph.ops[static_cast<std::size_t>(op)].kind);
  }

  // Appends the operator and what is placed behind it.
  void take(std::size_t index, std::vector<Op>& ops) {
    ops.push_back(std::move(program_.graph.ops[index]));
    for (const std::size_t next : early_[index]) take(next, ops);
  }

  Program program_;
  Uses uses_;
  std::vector<double> live_behind_;
  std::vector<std::vector<std::size_t>> early_;  // [operator]: those that run behind it
  std::vector<bool> placed_;                     // [operator]: it runs behind another one
};

}  // namespace

Program fuse_moves(Program program) {
  return MoveFusion(std::move(program)).run();
}

Program place_moves(Program program) {
  return MovePlacement(std::move(program)).run();
}

}  // namespace es::gpu
