#pragma once
// The paths of the HTTP service. The file ../web/openapi.json describes the same ones.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "actors/base/access/core/identity.h"
#include "proto/message_type.h"

namespace es::actors::http {

enum class Action {
  kPage,  // a file of the web page
  kMetrics,
  kOpenApi,
  kIdentity,
  kListJobs,
  kSubmitJob,
  kDescribeJob,
  kFollowJob,
  kReadLog,
  kReadCurve,
  kReadTimeline,
  kReadLedger,
  kListPlans,
  kTraceJob,
  kProfileJob,
  kExplainJob,
  kPauseJob,
  kResumeJob,
  kCancelJob,
  kScaleJob,
  kBudgetJob,
  kCheckpointJob,
  kRemoveJob,
  kListNodes,
  kListClaims,
  kReadNode,
  kReadCluster,
  kListQueues,
  kMakeClaim,
  kReleaseClaim,
  kClearDevice,
  kVacateNode,
  kShutdown,
};

struct Route {
  const char* method;
  // Segments in braces match any one segment: "/api/v1/jobs/{job}/log".
  const char* path;
  Action action;
  // The request of esctl for which it stands, which decides who may send it
  // (access::check_request); none: it needs no token.
  std::optional<MessageType> request;
};

std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;  // none: no route has this path and method
  std::string argument;          // what stands for the segment in braces
  std::string allowed;           // the methods of this path, e.g. "GET, POST"; empty: no such path
};
// HEAD has the routes of GET.
Match match_route(std::string_view method, std::string_view path);

// Whether the answer comes while the job goes on. HEAD asks no job for such an answer.
bool takes_long(const Route& route);

// Whether the request changes something, and so belongs into the audit log.
bool changes(const Route& route);

}  // namespace es::actors::http
