#include "actors/service/core/routes.h"

namespace es::actors::http {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/", Action::kPage, {}},
    {"GET", "/web/{file}", Action::kPage, {}},
    {"GET", "/metrics", Action::kMetrics, MessageType::kListNodes},
    {"GET", "/api/v1/openapi.json", Action::kOpenApi, {}},
    {"GET", "/api/v1/identity", Action::kIdentity, MessageType::kListJobs},
    {"GET", "/api/v1/jobs", Action::kListJobs, MessageType::kListJobs},
    {"POST", "/api/v1/jobs", Action::kSubmitJob, MessageType::kSubmitJob},
    {"GET", "/api/v1/jobs/{job}", Action::kDescribeJob, MessageType::kDescribeJob},
    {"DELETE", "/api/v1/jobs/{job}", Action::kRemoveJob, MessageType::kRemoveJob},
    {"GET", "/api/v1/jobs/{job}/events", Action::kFollowJob, MessageType::kFollowJob},
    {"GET", "/api/v1/jobs/{job}/log", Action::kReadLog, MessageType::kFollowJob},
    {"GET", "/api/v1/jobs/{job}/curve", Action::kReadCurve, MessageType::kReadLedger},
    {"GET", "/api/v1/jobs/{job}/timeline", Action::kReadTimeline, MessageType::kDescribeJob},
    {"GET", "/api/v1/jobs/{job}/ledger", Action::kReadLedger, MessageType::kReadLedger},
    {"GET", "/api/v1/jobs/{job}/plans", Action::kListPlans, MessageType::kListPlans},
    {"GET", "/api/v1/jobs/{job}/trace", Action::kTraceJob, MessageType::kTraceJob},
    {"GET", "/api/v1/jobs/{job}/profile", Action::kProfileJob, MessageType::kTraceJob},
    {"GET", "/api/v1/jobs/{job}/explain", Action::kExplainJob, MessageType::kDescribeJob},
    {"POST", "/api/v1/jobs/{job}/pause", Action::kPauseJob, MessageType::kPauseJob},
    {"POST", "/api/v1/jobs/{job}/resume", Action::kResumeJob, MessageType::kResumeJob},
    {"POST", "/api/v1/jobs/{job}/cancel", Action::kCancelJob, MessageType::kCancelJob},
    {"POST", "/api/v1/jobs/{job}/scale", Action::kScaleJob, MessageType::kScaleJob},
    {"POST", "/api/v1/jobs/{job}/budget", Action::kBudgetJob, MessageType::kBudgetJob},
    {"POST", "/api/v1/jobs/{job}/checkpoint", Action::kCheckpointJob, MessageType::kCheckpointJob},
    {"GET", "/api/v1/nodes", Action::kListNodes, MessageType::kListNodes},
    {"GET", "/api/v1/nodes/{node}/history", Action::kReadNode, MessageType::kListNodes},
    {"GET", "/api/v1/cluster", Action::kReadCluster, MessageType::kListNodes},
    {"GET", "/api/v1/claims", Action::kListClaims, MessageType::kListNodes},
    {"GET", "/api/v1/queues", Action::kListQueues, MessageType::kListNodes},
    {"PUT", "/api/v1/claims/{claim}", Action::kMakeClaim, MessageType::kClaimDevices},
    {"DELETE", "/api/v1/claims/{claim}", Action::kReleaseClaim, MessageType::kReleaseClaim},
    {"POST", "/api/v1/nodes/{node}/drain", Action::kVacateNode, MessageType::kVacateNode},
    {"POST", "/api/v1/devices/clear", Action::kClearDevice, MessageType::kClearDevice},
    {"POST", "/api/v1/shutdown", Action::kShutdown, MessageType::kShutdown},
};

// The first segment of the path, which is then removed; the path begins with '/'.
std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

// What stands for the segment in braces; nullopt: the path does not match.
std::optional<std::string> match_path(std::string_view pattern, std::string_view path) {
  std::string argument;
  while (pattern.starts_with('/') && path.starts_with('/')) {
    const std::string_view expected = take_segment(pattern), given = take_segment(path);
    if (expected.starts_with('{') && !given.empty())
      argument = given;
    else if (expected != given)
      return {};
  }
  if (!pattern.empty() || !path.empty()) return {};
  return argument;
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

Match match_route(std::string_view method, std::string_view path) {
  Match match;
  if (method == "HEAD") method = "GET";
  for (const Route& route : kRoutes) {
    auto argument = match_path(route.path, path);
    if (!argument) continue;
    if (method == route.method) {
      match.route = &route;
      match.argument = *std::move(argument);
    }
    match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(route.method);
    if (std::string_view(route.method) == "GET") match.allowed += ", HEAD";
  }
  return match;
}

bool takes_long(const Route& route) {
  return route.action == Action::kFollowJob || route.action == Action::kTraceJob ||
         route.action == Action::kProfileJob;
}

bool changes(const Route& route) {
  return std::string_view(route.method) != "GET";
}

}  // namespace es::actors::http
