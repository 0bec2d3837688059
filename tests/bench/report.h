#pragma once
// The output of the kernels benchmark.
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "tests/bench/duel.h"

namespace es::bench {

// One line: a pass of a case, compared with the fastest vendor library.
struct Measurement {
  std::string name, pass;
  std::string vendor;  // "oneDNN", "OpenBLAS", or "fp32" beside an exact product.
  Duel duel;
  double flops = 0;  // The operations of one call; 0 for work that memory limits.
};

class Report {
 public:
  // `filter`: a part of the names of the cases to run. Prints the heading.
  Report(const gpu::KernelTable& table, std::string filter);

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  void add(Measurement m);
  // Writes all lines as JSON. Returns whether the file could be written.
  bool write_json(const std::string& path) const;

 private:
  std::string row_json(const Measurement& m) const;

  const std::string class_name_, filter_, machine_, commit_;
  const double peak_gflops_;
  std::vector<Measurement> rows_;
};

}  // namespace es::bench
