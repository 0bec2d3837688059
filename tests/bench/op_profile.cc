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

namespace {

// Convolutions have filters of very different cost: "3x3 conv2d", "depthwise 5x5s2 conv2d".
std::string kind_of(const Op& op) {
  const std::string name = op_name(op.kind);
  if (!name.starts_with("conv2d")) return name;
  const gpu::ConvShape& s = op.conv;
  std::string filter = std::to_string(s.kh) + "x" + std::to_string(s.kw);
  if (s.stride > 1) filter += "s" + std::to_string(s.stride);
  if (s.groups == s.c && s.c > 1)
    filter = "depthwise " + filter;
  else if (s.groups > 1)
    filter = "grouped " + filter;
  return filter + " " + name;
}

}  // namespace

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
  floor_seconds += other.floor_seconds;
  runs += other.runs;
}

void OpProfile::print_table(std::ostream& out, const std::vector<Sum>& sums, std::size_t most,
                            int steps, double step_ms) {
  out << std::fixed << "      ms      %  runs  GFLOP/s    GB/s  floor   bound  operator\n";
  for (std::size_t i = 0; i < std::min(most, sums.size()); ++i) {
    const Sum& s = sums[i];
    const double ms = s.seconds * 1e3 / steps;
    out << std::setprecision(3) << std::setw(8) << ms << std::setprecision(1) << std::setw(7)
        << 100.0 * ms / step_ms << std::setw(6) << s.runs / steps << std::setw(9)
        << s.flops / s.seconds * 1e-9 << std::setw(8) << s.bytes / s.seconds * 1e-9
        << std::setprecision(2) << std::setw(7) << s.floor_seconds / s.seconds << std::setw(8)
        << s.bound << "  " << s.name << "\n";
  }
}

void OpProfile::print(std::ostream& out, int steps, double step_ms, const Floors* floors) const {
  std::map<std::string, Sum> by_kind;
  std::vector<Sum> by_op;
  Sum all;
  for (const auto& [op, sum] : ops_) {
    Sum s = sum;
    const double flops = gpu::op_flops(graph_, *op), bytes = gpu::op_bytes(graph_, *op);
    const Floor floor = floors != nullptr ? floors->of(flops, bytes) : Floor{};
    s.flops = flops * sum.runs;
    s.bytes = bytes * sum.runs;
    s.floor_seconds = floor.seconds * sum.runs;
    by_kind[kind_of(*op)].add(s);
    all.add(s);
    s.bound = floor.bound;
    s.name = op->name + " " + kind_of(*op);
    for (const gpu::TensorId t : op->in) s.name += " " + shape_text(graph_.shape(t));
    for (const gpu::TensorId t : op->out) s.name += " > " + shape_text(graph_.shape(t));
    by_op.push_back(s);
  }
  std::vector<Sum> kinds;
  for (auto& [name, sum] : by_kind) {
    sum.name = name;
    kinds.push_back(sum);
  }
  const auto slower = [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; };
  const auto lost = [](const Sum& a, const Sum& b) {
    return a.seconds - a.floor_seconds > b.seconds - b.floor_seconds;
  };
  std::sort(kinds.begin(), kinds.end(), slower);
  std::sort(by_op.begin(), by_op.end(), lost);
  out << "operators " << all.seconds * 1e3 / steps << " ms of " << step_ms << " ms per step";
  if (floors != nullptr) {
    out << ", floor " << all.floor_seconds * 1e3 / steps << " ms\nfloors: compute "
        << floors->gflops() << " GFLOP/s";
    for (const MemoryLevel& level : floors->levels())
      out << ", " << level.name << " " << level.gb_per_s << " GB/s";
  }
  out << "\n";
  print_table(out, kinds, kinds.size(), steps, step_ms);
  print_table(out, by_op, 25, steps, step_ms);
}

}  // namespace es::bench
