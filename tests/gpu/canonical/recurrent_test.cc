// The time steps of recurrent layers.
#include "tests/gpu/canonical/recurrent_steps.h"

#include <cmath>

#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// The hidden state after a step of one unit. `p` are the parts of the gates from the state before.
double lstm_state(const double* x, const double* p, double c_before) {
  const double c = sigmoid(x[1] + p[1]) * c_before + sigmoid(x[0] + p[0]) * std::tanh(x[2] + p[2]);
  return sigmoid(x[3] + p[3]) * std::tanh(c);
}
double gru_state(const double* x, const double* p, double h) {
  const double n = std::tanh(x[2] + sigmoid(x[0] + p[0]) * p[2]), z = sigmoid(x[1] + p[1]);
  return n + z * (h - n);
}

void check_size(Random& random, RecurrentCell cell, std::int64_t rows, std::int64_t units) {
  const RecurrentStep step(random, cell, rows, units);
  const auto out = same_in_all_classes(step.what, [&](const KernelTable& t) {
    auto forward = step.forward_outputs();
    t.recurrent_fwd(step.forward(forward));
    auto backward = step.backward_outputs();
    t.recurrent_bwd(step.backward(forward, backward));
    for (Floats& floats : backward) forward.push_back(std::move(floats));
    return forward;
  });
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t unit = 0; unit < units; ++unit) {
      double x[4], p[4];
      for (std::int64_t g = 0; g < step.gates; ++g) {
        const std::int64_t i = (row * step.gates + g) * units + unit;
        x[g] = step.x[i], p[g] = step.product[i];
      }
      const std::int64_t i = row * units + unit;
      const double y = cell == RecurrentCell::kLstm ? lstm_state(x, p, step.before[i])
                                                    : gru_state(x, p, step.before[i]);
      check_near(out[RecurrentStep::kY][i], y, 2e-6, step.what);
      if (cell == RecurrentCell::kLstm)
        CHECK(out[RecurrentStep::kLast][i] == out[RecurrentStep::kKept][i]);
    }
}

TEST_SUITE("gpu/canonical/recurrent") {
  TEST_CASE("a step has the same bits in every class and is close to double precision") {
    Random random(test::seed("recurrent"));
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru})
      for (int i = 0; i < 40; ++i)
        check_size(random, cell, random.integer(1, 9), random.integer(1, 90));
  }

  TEST_CASE("gates may replace x, and the gradient of x may replace gates") {
    Random random(test::seed("recurrent in place"));
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru}) {
      const RecurrentStep step(random, cell, 3, 37);
      same_in_all_classes(step.what + " in place", [&](const KernelTable& t) {
        auto apart = step.forward_outputs(), inside = step.forward_outputs();
        t.recurrent_fwd(step.forward(apart));
        std::copy_n(step.x.data(), step.x.size(), inside[RecurrentStep::kGates].data());
        RecurrentForward f = step.forward(inside);
        f.x = f.gates;
        t.recurrent_fwd(f);
        CHECK(inside[RecurrentStep::kGates].first_difference(apart[RecurrentStep::kGates]) == -1);
        CHECK(inside[RecurrentStep::kY].first_difference(apart[RecurrentStep::kY]) == -1);
        auto back_apart = step.backward_outputs(), back_inside = step.backward_outputs();
        t.recurrent_bwd(step.backward(apart, back_apart));
        RecurrentBackward b = step.backward(inside, back_inside);
        b.dx = inside[RecurrentStep::kGates];
        if (cell == RecurrentCell::kLstm) b.dproduct = nullptr;
        t.recurrent_bwd(b);
        CHECK(inside[RecurrentStep::kGates].first_difference(back_apart[RecurrentStep::kDx]) == -1);
        return inside;
      });
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
