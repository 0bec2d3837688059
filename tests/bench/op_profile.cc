#include "tests/bench/op_profile.h"

#include <algorithm>
#include <iomanip>
#include <vector>

#include "gpu/graph/op_flops.h"
#include "gpu/graph/ops/operator.h"

namespace es::bench {

using gpu::Op;

double seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void OpProfile::begin_op(const Op&) {
  begin_ = seconds_of(clock_);
}

void OpProfile::end_op(const Op& op) {
  const double time = seconds_of(clock_) - begin_;
  Sum& sum = ops_[&op];
  sum.seconds += time;
  ++sum.runs;
}

void OpProfile::Sum::add(const Sum& other) {
  seconds += other.seconds;
  flops += other.flops;
  bytes += other.bytes;
  runs += other.runs;
}

void OpProfile::print_table(std::ostream& out, const std::vector<Sum>& sums, std::size_t most,
                            int steps, double step_ms) {
  out << std::fixed << "      ms      %  runs  GFLOP/s    GB/s  operator\n";
  for (std::size_t i = 0; i < std::min(most, sums.size()); ++i) {
    const Sum& s = sums[i];
    const double ms = s.seconds * 1e3 / steps;
    out << std::setprecision(3) << std::setw(8) << ms << std::setprecision(1) << std::setw(7)
        << 100.0 * ms / step_ms << std::setw(6) << s.runs / steps << std::setw(9)
        << s.flops / s.seconds * 1e-9 << std::setw(8) << s.bytes / s.seconds * 1e-9 << "  "
        << s.name << "\n";
  }
}

void OpProfile::print(std::ostream& out, int steps, double step_ms) const {
  std::map<std::string, Sum> by_kind;
  std::vector<Sum> by_op;
  double seconds = 0.0;
  for (const auto& [op, sum] : ops_) {
    Sum s = sum;
    s.flops = gpu::op_flops(graph_, *op) * sum.runs;
    s.bytes = gpu::op_bytes(graph_, *op) * sum.runs;
    by_kind[op_name(op->kind)].add(s);
    s.name = op->name + " " + op_name(op->kind);
    for (const gpu::TensorId t : op->in) s.name += " " + shape_text(graph_.shape(t));
    for (const gpu::TensorId t : op->out) s.name += " > " + shape_text(graph_.shape(t));
    by_op.push_back(s);
    seconds += sum.seconds;
  }
  std::vector<Sum> kinds;
  for (auto& [name, sum] : by_kind) {
    sum.name = name;
    kinds.push_back(sum);
  }
  const auto slower = [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; };
  std::sort(kinds.begin(), kinds.end(), slower);
  std::sort(by_op.begin(), by_op.end(), slower);
  out << "operators " << seconds * 1e3 / steps << " ms of " << step_ms << " ms per step\n";
  print_table(out, kinds, kinds.size(), steps, step_ms);
  print_table(out, by_op, 25, steps, step_ms);
}

}  // namespace es::bench
