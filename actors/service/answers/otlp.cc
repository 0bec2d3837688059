#include "actors/service/answers/otlp.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"

namespace es::actors::http {
namespace {

using Json = nlohmann::ordered_json;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

// Protocol Buffers write numbers of 64 bits as text.
std::string whole(std::uint64_t value) {
  return std::to_string(value);
}

Json number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json attribute(const std::string& name, const std::string& value) {
  return {{"key", name}, {"value", {{"stringValue", value}}}};
}

// The unit by the end of a name, as UCUM writes it.
const char* unit_of(std::string name) {
  if (name.ends_with("_total")) name.resize(name.size() - std::string("_total").size());
  if (name.ends_with("_seconds")) return "s";
  if (name.ends_with("_bytes")) return "By";
  if (name.ends_with("_ratio")) return "1";
  return "";
}

struct Times {
  std::string start, now;  // unix time in ns
};

Json point_of(const ClientMetric& metric, const Times& times, bool counts) {
  Json attributes = Json::array();
  for (const ClientMetric::Label& label : metric.label)
    attributes.push_back(attribute(label.name, label.value));
  Json point{{"attributes", attributes}, {"timeUnixNano", times.now}};
  if (counts) point["startTimeUnixNano"] = times.start;
  return point;
}

// Prometheus counts the values up to each bound, OTLP those between two bounds.
void put_histogram(const ClientMetric::Histogram& histogram, Json& point) {
  Json counts = Json::array(), bounds = Json::array();
  std::uint64_t before = 0;
  for (const ClientMetric::Bucket& bucket : histogram.bucket) {
    counts.push_back(whole(bucket.cumulative_count - before));
    before = bucket.cumulative_count;
    if (std::isfinite(bucket.upper_bound)) bounds.push_back(bucket.upper_bound);
  }
  point["count"] = whole(histogram.sample_count);
  point["sum"] = number_text(histogram.sample_sum);
  point["bucketCounts"] = counts;
  point["explicitBounds"] = bounds;
}

Json metric_of(const MetricFamily& family, const Times& times) {
  Json points = Json::array();
  for (const ClientMetric& metric : family.metric) {
    Json point = point_of(metric, times, family.type != MetricType::Gauge);
    if (family.type == MetricType::Histogram)
      put_histogram(metric.histogram, point);
    else
      point["asDouble"] = number_text(family.type == MetricType::Counter ? metric.counter.value
                                                                         : metric.gauge.value);
    points.push_back(point);
  }
  Json data{{"dataPoints", points}};
  const char* kind = "gauge";
  if (family.type != MetricType::Gauge) {
    kind = family.type == MetricType::Histogram ? "histogram" : "sum";
    data["aggregationTemporality"] = kCumulative;
    if (family.type == MetricType::Counter) data["isMonotonic"] = true;
  }
  return {{"name", family.name},
          {"description", family.help},
          {"unit", unit_of(family.name)},
          {kind, data}};
}

}  // namespace

std::string otlp_json(const MetricFamilies& families, const OtlpSource& source) {
  const Times times{whole(static_cast<std::uint64_t>(source.start_unix_s * 1e3) * 1'000'000),
                    whole(source.unix_ms * 1'000'000)};
  Json metrics = Json::array();
  for (const MetricFamily& family : families) metrics.push_back(metric_of(family, times));
  const Json resource{{"attributes",
                       {attribute("service.name", "easyscale"),
                        attribute("service.instance.id", source.instance)}}};
  const Json scope{{"scope", {{"name", "easyscaled"}}}, {"metrics", metrics}};
  const Json all{{"resource", resource}, {"scopeMetrics", {scope}}};
  return json_text({{"resourceMetrics", {all}}}, -1);
}

}  // namespace es::actors::http
