#include "gpu/graph/merge_moves.h"

#include <algorithm>
#include <map>
#include <utility>

namespace es::gpu {
namespace {

// The words of larger tensors are not marked one by one.
constexpr std::int64_t kWordsMax = std::int64_t{1} << 30;

// The words of a tensor that a group of moves reads.
class ReadWords {
 public:
  explicit ReadWords(std::int64_t count) : read_(static_cast<std::size_t>(count), false) {}

  // Adds all words of the move. Returns false and adds nothing if one of them was read before.
  bool add(const Move& move) {
    // A move that is refused halfway must leave no marks.
    const std::vector<bool> before = read_;
    for (const BlockCopy& copy : move) {
      if (add_dimension(copy, 0, copy.source_offset)) continue;
      read_ = before;
      return false;
    }
    return true;
  }

 private:
  bool add_dimension(const BlockCopy& copy, std::size_t d, std::int64_t at) {
    if (d == kMoveRank) {
      const auto word = static_cast<std::size_t>(at);
      if (read_[word]) return false;
      read_[word] = true;
      return true;
    }
    for (std::int64_t i = 0; i < copy.size[d]; ++i)
      if (!add_dimension(copy, d + 1, at + i * copy.source_stride[d])) return false;
    return true;
  }

  std::vector<bool> read_;
};

// Appends the outputs of `op` to `into`.
void join(Op& into, const Op& op) {
  const auto outputs = static_cast<std::int32_t>(into.out.size());
  for (BlockCopy copy : op.move) {
    // The outputs of `op` come behind those of `into`.
    copy.target += outputs;
    into.move.push_back(copy);
  }
  into.out.insert(into.out.end(), op.out.begin(), op.out.end());
}

}  // namespace

Graph merge_slices(Graph graph) {
  // [tensor]: operators that move this tensor only
  std::map<TensorId, std::vector<std::size_t>> moves_of;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind == OpKind::kMove && op.in.size() == 1 &&
        // The merge serves the gradient only.
        graph.tensors[static_cast<std::size_t>(op.in[0])].needs_grad)
      moves_of[op.in[0]].push_back(i);
  }
  std::vector<bool> joined(graph.ops.size(), false);
  for (const auto& [tensor, moves] : moves_of) {
    if (moves.size() < 2 || graph.shape(tensor).count() > kWordsMax) continue;
    Op& first = graph.ops[moves[0]];
    ReadWords words(graph.shape(tensor).count());
    // The copies of one move read each word once, so this never fails.
    words.add(first.move);
    for (std::size_t m = 1; m < moves.size(); ++m) {
      const Op& op = graph.ops[moves[m]];
      if (first.out.size() + op.out.size() > kMoveTensorsMax || !words.add(op.move)) continue;
      // The merged move runs at the place of the first one. Its input exists there, and the readers
      // of its other outputs come later anyway.
      join(first, op);
      joined[moves[m]] = true;
    }
  }
  std::vector<Op> kept;
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (!joined[i]) kept.push_back(std::move(graph.ops[i]));
  graph.ops = std::move(kept);
  return graph;
}

}  // namespace es::gpu
