#pragma once
// Metrics as OTLP: the body of a request of OTLP/HTTP in JSON
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp). Pure functions.
#include <cstdint>
#include <string>

#include "actors/service/answers/metrics.h"

namespace es::actors::http {

struct OtlpSource {
  std::string instance;       // service.instance.id: the name of the process
  double start_unix_s = 0;    // since then counters count
  std::uint64_t unix_ms = 0;  // now
};

// An ExportMetricsServiceRequest. Names and labels are those of /metrics; counters and histograms
// are cumulative. Numbers that are not finite are written as Protocol Buffers say ("NaN").
std::string otlp_json(const MetricFamilies& families, const OtlpSource& source);

}  // namespace es::actors::http
