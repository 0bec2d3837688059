#include "actors/service/core/http_types.h"

#include <nlohmann/json.hpp>

#include "actors/base/access/core/audit.h"

namespace es::actors::http {
namespace {

struct KindText {
  ErrorKind kind;
  const char* name;
};

// The names are those of esctl's JSON.
constexpr KindText kKinds[] = {
    {ErrorKind::kUsage, "usage"},
    {ErrorKind::kNotFound, "not_found"},
    {ErrorKind::kRefused, "refused"},
    {ErrorKind::kFailure, "failure"},
};

std::string error_body(const std::string& message, const std::string& kind) {
  const nlohmann::ordered_json body{{"error", message}, {"kind", kind}};
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Response error_response(const Error& error) {
  for (const KindText& k : kKinds)
    if (k.kind == error.kind)
      return {.status = access::status_of(error.kind), .body = error_body(error.message, k.name)};
  return error_response(500, error.message);
}

Response error_response(int status, const std::string& message) {
  const char* kind = status == 401 || status == 403 ? "forbidden"
                     : status == 404                ? "not_found"
                     : status >= 500                ? "failure"
                                                    : "usage";
  return {.status = status, .body = error_body(message, kind)};
}

}  // namespace es::actors::http
