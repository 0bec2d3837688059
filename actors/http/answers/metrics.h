#pragma once
// What the head says in the text format of Prometheus. Pure functions.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/esctl/views/claims_view.h"
#include "actors/esctl/views/views.h"

namespace es::actors::http {

// Facts about the process of the head.
struct ProcessFacts {
  double resident_bytes = 0;
  double cpu_seconds = 0;
  double start_unix_seconds = 0;
  double open_files = 0;
};

struct Snapshot {
  std::vector<JobView> jobs;
  std::vector<esctl::NodeView> nodes;
  std::vector<esctl::ClaimView> claims;
  std::string warning;  // a fault of the head that is still running; empty: none
  ProcessFacts process;
  // Requests by (method, status).
  std::map<std::pair<std::string, int>, std::uint64_t> requests;
};

// Series of single jobs exist for jobs that are not over, so their number is bounded by what runs.
// Names and units follow the conventions of Prometheus (docs/MONITORING.md lists them all).
std::string metrics_text(const Snapshot& snapshot);
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace es::actors::http
