#pragma once
// The time of local steps by kind of operator and by operator, beside what the processor could do.
#include <ctime>
#include <map>
#include <ostream>
#include <string>

#include "gpu/graph/executor.h"
#include "tests/bench/floors.h"

namespace es::bench {

double seconds_of(clockid_t clock);

class OpProfile : public gpu::OpObserver {
 public:
  // `clock`: CLOCK_THREAD_CPUTIME_ID excludes other processes, but also the helper threads of an
  // operator.
  OpProfile(const gpu::Graph& graph, clockid_t clock) : graph_(graph), clock_(clock) {}

  void begin_op(const gpu::Op& op) override;
  void end_op(const gpu::Op& op) override;
  // Times are means over the `steps` that were measured; `step_ms` is the time of a whole step. The
  // column "floor" is the share of the time that the floor of `floors` needs; "bound" names that
  // floor. A device without floors has neither.
  void print(std::ostream& out, int steps, double step_ms, const Floors* floors) const;

 private:
  struct Sum {
    double seconds = 0.0;
    double flops = 0.0;  // The multiplications and additions of dense products.
    double bytes = 0.0;  // The bytes of the tensors and parameters that it reads or writes.
    double floor_seconds = 0.0;
    int runs = 0;
    std::string name, bound;
    void add(const Sum& other);
  };
  static void print_table(std::ostream& out, const std::vector<Sum>& sums, std::size_t most,
                          int steps, double step_ms);

  const gpu::Graph& graph_;
  std::map<const gpu::Op*, Sum> ops_;
  clockid_t clock_;
  double begin_ = 0.0;
};

}  // namespace es::bench
