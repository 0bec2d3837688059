#pragma once
// What the head says as metrics: in OpenMetrics, in the older text format of Prometheus, and as
// families of series, which otlp.h writes in another form. Pure functions.
#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/base/gateway/core/transport_stats.h"
#include "actors/views/claims_view.h"
#include "actors/views/views.h"

namespace es::actors::http {

// Facts about the process of a daemon.
struct ProcessFacts {
  double resident_bytes = 0;
  double cpu_seconds = 0;
  double start_unix_seconds = 0;
  double open_files = 0;
  // Worker processes on the node of the daemon, and their resident memory together.
  double workers = 0;
  double workers_resident_bytes = 0;
  TransportStats transport;  // messages to and from other processes
};

// Requests to the HTTP service by (method, status).
using RequestCounts = std::map<std::pair<std::string, int>, std::uint64_t>;

struct Snapshot {
  std::map<std::string, std::uint64_t> states;  // number of jobs by state
  std::vector<JobView> jobs;                    // those that are not over
  std::vector<NodeView> nodes;
  std::vector<ClaimView> claims;
  DecisionTimes decisions;
  std::uint64_t unix_ms = 0;  // the clock of the head
  std::string warning;        // a fault of the head that is still running; empty: none
  ProcessFacts process;
  RequestCounts requests;
};

using MetricFamilies = std::vector<prometheus::MetricFamily>;

// Series of single jobs exist for jobs that are not over, so their number is bounded by what runs.
// Names and units follow the conventions of Prometheus (docs/MONITORING.md lists them all). There
// is no family without a series.
MetricFamilies metrics_of(const Snapshot& snapshot);
// The metrics of a daemon that is only a node: its process, its workers and its messages.
MetricFamilies node_metrics(const ProcessFacts& process, const RequestCounts& requests);

std::string metrics_text(const MetricFamilies& families);
// OpenMetrics 1.0, for a reader that accepts it (the header Accept).
std::string openmetrics_text(const MetricFamilies& families);
bool accepts_openmetrics(std::string_view accept);
inline constexpr const char* kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace es::actors::http
