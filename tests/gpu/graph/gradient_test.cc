// Every operator, forwards and backwards, compared with an fp64 reference and its finite
// differences.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "gpu/graph/fuse.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/reference_fp64.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/differentiate") {
  using namespace es::gpu;
  using es::test::OperatorCase;
  using es::test::StepRig;

  // The derivative of the fp64 reference loss along `direction`, a vector over one parameter. The
  // step is very short, so that few ReLUs or maxima change their branch within it.
  double reference_slope(const Graph& graph, const StepRig& s, const ParamInfo& p,
                         const std::vector<double>& direction) {
    constexpr double kStep = 1e-6;
    const auto loss_at = [&](double scale) {
      std::vector<double> params(s.params.data(), s.params.data() + s.params.floats());
      for (std::int64_t i = 0; i < p.count; ++i) params[p.offset + i] += scale * direction[i];
      return es::test::reference_loss(graph, params, s.batch(), s.key);
    };
    return (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  }

  std::vector<double> random_unit_vector(std::mt19937_64 & random, std::int64_t count) {
    std::vector<double> v(static_cast<std::size_t>(count));
    double square = 0.0;
    for (double& x : v) {
      x = std::normal_distribution<double>()(random);
      square += x * x;
    }
    for (double& x : v) x /= std::sqrt(square);
    return v;
  }

  void check_against_reference(const OperatorCase& c, std::mt19937_64& random) {
    INFO(c.name);
    StepRig s(compile(c.graph), random());
    const double loss = s.run();
    const std::vector<double> params(s.params.data(), s.params.data() + s.params.floats());
    const double expected = es::test::reference_loss(c.graph, params, s.batch(), s.key);
    CHECK(std::abs(loss - expected) / expected < 2e-6);
    for (const ParamInfo& p : c.graph.table.params()) {
      const std::vector<double> direction = random_unit_vector(random, p.count);
      double slope = 0.0, length = 0.0;
      for (std::int64_t i = 0; i < p.count; ++i) {
        const double g = s.grads.data()[p.offset + i];
        slope += g * direction[i];
        length += g * g;
      }
      INFO(p.name);
      const double exact = reference_slope(c.graph, s, p, direction);
      CHECK(std::abs(slope - exact) < 1e-5 * (std::sqrt(length) + 0.1));
    }
  }

  TEST_CASE("loss and the gradient of every parameter agree with an fp64 reference") {
    std::mt19937_64 random(es::test::seed("gradients"));
    for (int trial = 0; trial < 2; ++trial) {
      for (const OperatorCase& c : es::test::operator_cases()) check_against_reference(c, random);
      for (const OperatorCase& c : es::test::network_cases()) check_against_reference(c, random);
    }
  }
}
