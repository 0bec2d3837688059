#pragma once
// What several actors of the controller have.
#include <chrono>
#include <string>

#include "actors/base/log/log.h"
#include "actors/kubernetes/shell/kubernetes_api.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

struct ControllerOptions {
  InCluster place;
  std::string cluster;   // name of the EasyScaleCluster
  std::string identity;  // unique among the controllers: the name of the pod
};

// Paths of collections in the namespace of the controller.
std::string core_path(const ControllerOptions& options, const std::string& kind);  // of /api/v1
std::string own_path(const ControllerOptions& options, const std::string& kind);   // of EasyScale
std::string leases_path(const ControllerOptions& options);

// The time of day in RFC 3339, and the same with microseconds.
std::string clock_text();
std::string micro_clock_text();

// The time between two looks at what reports no changes: the head, and the Lease.
inline constexpr std::chrono::seconds kLookEvery{1};

// Whether this controller may act (ActsUntil).
class Mandate {
 public:
  using Clock = std::chrono::steady_clock;
  void extend(Clock::time_point until) { until_ = until; }
  bool holds() const { return Clock::now() < until_; }

 private:
  Clock::time_point until_{};
};

// Logs a trouble once, until it has changed.
class TroubleLog {
 public:
  void note(const Status& status) {
    const std::string trouble = status.ok() ? std::string() : status.error().message;
    if (!trouble.empty() && trouble != last_) log::warning("tried again: " + trouble);
    last_ = trouble;
  }

 private:
  std::string last_;
};

}  // namespace es::actors::kubernetes
