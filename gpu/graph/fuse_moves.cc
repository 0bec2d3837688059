// Fuses moves that follow each other, with views possibly between them, into one move.
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

}  // namespace

Program fuse_moves(Program program) {
  return MoveFusion(std::move(program)).run();
}

}  // namespace es::gpu
