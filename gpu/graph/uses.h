#pragma once
// Who reads and writes each tensor of a program; for passes that rewrite programs (fuse.h).
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

  // By tensor. The caller of an evaluation reads the graph's outputs.
  std::vector<int> reads;
  std::vector<std::int64_t> writer;     // operator, or -1
  std::vector<std::int64_t> last_read;  // operator, or -1
};

// Whether operator `writer` may run where `reader`, the only one to read its result, stands: its
// inputs that would then live longer hold no more than its result, or nothing lies between the two.
// `merged` marks operators that are already part of others.
bool keeps_no_more_alive(const Graph& graph, const Uses& uses, const std::vector<bool>& merged,
                         std::size_t writer, std::size_t reader);

// Removes the marked operators.
void drop_marked(std::vector<Op>& ops, const std::vector<bool>& marked);
void drop_marked(Program& program, const std::vector<bool>& marked);

}  // namespace es::gpu
