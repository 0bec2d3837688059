#pragma once
// The metrics that a job with a model file may name (JobSpec::metrics).
// docs/reference/model-file.md defines them.
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace es {

enum class MetricKind { kTop, kF1, kF1Binary, kAuc, kAveragePrecision, kMse, kMae };

struct MetricChoice {
  MetricKind kind = MetricKind::kTop;
  std::uint32_t k = 1;  // kTop: the class is among the first k
  bool operator==(const MetricChoice&) const = default;
};

inline constexpr const char* kMetricNames =
    "accuracy, top1 to top1000, f1, f1_binary, auc, map, mse, mae";

// Nothing for a text that is no metric.
inline std::optional<MetricChoice> parse_metric(std::string_view text) {
  struct Named {
    std::string_view name;
    MetricKind kind;
  };
  constexpr Named kNamed[] = {{"accuracy", MetricKind::kTop},
                              {"f1", MetricKind::kF1},
                              {"f1_binary", MetricKind::kF1Binary},
                              {"auc", MetricKind::kAuc},
                              {"map", MetricKind::kAveragePrecision},
                              {"mse", MetricKind::kMse},
                              {"mae", MetricKind::kMae}};
  for (const Named& named : kNamed)
    if (text == named.name) return MetricChoice{.kind = named.kind};
  constexpr std::string_view kTop = "top";
  if (!text.starts_with(kTop)) return std::nullopt;
  const std::string_view digits = text.substr(kTop.size());
  std::uint32_t k = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), k);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || k < 1 || k > 1000 || digits.front() == '0') return std::nullopt;
  return MetricChoice{.kind = MetricKind::kTop, .k = k};
}

}  // namespace es
