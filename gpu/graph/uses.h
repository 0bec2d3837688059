#pragma once
// The readers and the writer of each tensor of a program, for passes that rewrite programs
// (fuse.h).
#include <cstdint>
#include <vector>

#include "gpu/graph/differentiate.h"

namespace es::gpu {

struct Uses {
  explicit Uses(const Graph& graph);
  template <class T>
  static T& at(std::vector<T>& values, TensorId t) {
    return values[static_cast<std::size_t>(t)];
  }
  template <class T>
  static const T& at(const std::vector<T>& values, TensorId t) {
    return values[static_cast<std::size_t>(t)];
  }

  // [tensor]: number of reads. The caller of a step counts as a reader of the graph's outputs
  // and losses.
  std::vector<int> reads;
  std::vector<std::int64_t> writer;     // [tensor]: operator, or -1
  std::vector<std::int64_t> last_read;  // [tensor]: operator, or -1
};

// Returns whether operator `writer` may run at the place of `reader`, which is the only reader of
// its result, without keeping more memory alive. That holds if no operator lies between the two, or
// if the inputs of `writer` that would then live longer are together not larger than its result.
// `merged` marks operators that are already parts of others.
bool keeps_no_more_alive(const Graph& graph, const Uses& uses, const std::vector<bool>& merged,
                         std::size_t writer, std::size_t reader);

// [operator]: the floats that later operators read of those that it and the operators before it
// write.
std::vector<double> live_behind(const Graph& graph);

// Removes the marked operators.
void drop_marked(std::vector<Op>& ops, const std::vector<bool>& marked);
void drop_marked(Program& program, const std::vector<bool>& marked);

}  // namespace es::gpu
