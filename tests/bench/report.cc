#include "tests/bench/report.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "gpu/base/peak.h"

namespace es::bench {
namespace {

std::string commit_of_environment() {
  const char* commit = std::getenv("ES_COMMIT");
  return commit != nullptr ? commit : "unknown";
}

double gflops(const Measurement& m, double us) {
  return m.flops / us * 1e-3;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

Report::Report(const gpu::KernelTable& table, std::string filter)
    : class_name_(device_type(table.cpu_class).name),
      filter_(std::move(filter)),
      machine_(processor_name()),
      commit_(commit_of_environment()),
      peak_gflops_(gpu::peak_gflops(table.cpu_class)) {
  std::printf("%s, %s, fp32 peak %.0f GFLOP/s\n", machine_.c_str(), class_name_.c_str(),
              peak_gflops_);
  std::printf("%-28s %-6s %-8s %10s %10s %8s %8s  %-6s %s\n", "case", "pass", "vendor", "vendor us",
              "ours us", "GFLOP/s", "of peak", "ratio", "p10..p90");
}

void Report::add(Measurement m) {
  const Duel& d = m.duel;
  const double speed = gflops(m, d.ours_us);  // 0 for work that memory limits.
  std::printf("%-28s %-6s %-8s %10.1f %10.1f %8.1f %8.2f  %-6.2f %.2f..%.2f\n", m.name.c_str(),
              m.pass.c_str(), m.vendor.c_str(), d.vendor_us, d.ours_us, speed, speed / peak_gflops_,
              d.ratio, d.ratio_low, d.ratio_high);
  std::fflush(stdout);
  rows_.push_back(std::move(m));
}

std::string Report::row_json(const Measurement& m) const {
  char numbers[320];
  const Duel& d = m.duel;
  std::snprintf(numbers, sizeof numbers,
                "\"vendor_us\": %.2f, \"ours_us\": %.2f, \"ratio\": %.3f, \"ratio_p10\": %.3f, "
                "\"ratio_p90\": %.3f, \"gflops\": %.1f, \"vendor_gflops\": %.1f, "
                "\"of_peak\": %.3f",
                d.vendor_us, d.ours_us, d.ratio, d.ratio_low, d.ratio_high, gflops(m, d.ours_us),
                gflops(m, d.vendor_us), gflops(m, d.ours_us) / peak_gflops_);
  return "{\"case\": " + quoted(m.name) + ", \"pass\": " + quoted(m.pass) +
         ", \"vendor\": " + quoted(m.vendor) + ", " + numbers + "}";
}

bool Report::write_json(const std::string& path) const {
  std::ofstream file(path);
  file << "{\"machine\": " << quoted(machine_) << ", \"class\": " << quoted(class_name_)
       << ", \"commit\": " << quoted(commit_) << ", \"peak_gflops\": " << peak_gflops_
       << ", \"rows\": [";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    file << (i == 0 ? "\n" : ",\n") << row_json(rows_[i]);
  }
  file << "\n]}\n";
  return file.good();
}

}  // namespace es::bench
