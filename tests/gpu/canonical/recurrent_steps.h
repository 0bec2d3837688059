#pragma once
// A time step of a recurrent layer with random operands, for the tests of CPU and device kernels.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/canonical/kernel_testing.h"

namespace es::gpu::testing {

struct RecurrentStep {
  enum Forward { kGates, kKept, kY, kLast };
  enum Backward { kDx, kCarry, kDproduct };

  RecurrentStep(Random& random, RecurrentCell cell, std::int64_t rows, std::int64_t units)
      : cell(cell),
        rows(rows),
        units(units),
        x(random.normals(rows * gates * units)),
        product(random.normals(rows * gates * units)),
        before(random.normals(rows * units)),
        dy(random.normals(rows * units)),
        dh(random.normals(rows * units)),
        carry(random.normals(rows * units)),
        what((cell == RecurrentCell::kLstm ? "lstm rows=" : "gru rows=") + std::to_string(rows) +
             " units=" + std::to_string(units)) {}

  // A GRU writes no cell state.
  std::vector<Floats> forward_outputs() const {
    std::vector<Floats> out;
    for (const std::int64_t width : {gates, std::int64_t{1}, std::int64_t{1}})
      out.emplace_back(rows * width * units);
    if (cell == RecurrentCell::kLstm) out.emplace_back(rows * units);
    return out;
  }
  // With the carry of the step after. An LSTM has no gradient of the product of its own.
  std::vector<Floats> backward_outputs() const {
    std::vector<Floats> out;
    for (const std::int64_t width : {gates, std::int64_t{1}})
      out.emplace_back(rows * width * units);
    std::copy_n(carry.data(), carry.size(), out[kCarry].data());
    if (cell == RecurrentCell::kGru) out.emplace_back(rows * gates * units);
    return out;
  }
  RecurrentForward forward(const std::vector<Floats>& out) const {
    return {.cell = cell,
            .rows = rows,
            .units = units,
            .x = x,
            .product = product,
            .before = before,
            .gates = out[kGates],
            .kept = out[kKept],
            .y = out[kY],
            .last = cell == RecurrentCell::kLstm ? out[kLast].data() : nullptr};
  }
  RecurrentBackward backward(const std::vector<Floats>& kept,
                             const std::vector<Floats>& out) const {
    return {.cell = cell,
            .rows = rows,
            .units = units,
            .gates = kept[kGates],
            .before = before,
            .kept = kept[kKept],
            .dy = dy,
            .product = dh,
            .carry = out[kCarry],
            .dx = out[kDx],
            .dproduct = cell == RecurrentCell::kGru ? out[kDproduct].data() : nullptr};
  }

  RecurrentCell cell;
  std::int64_t rows, units, gates = cell == RecurrentCell::kLstm ? 4 : 3;
  Floats x, product, before, dy, dh, carry;
  std::string what;
};

}  // namespace es::gpu::testing
