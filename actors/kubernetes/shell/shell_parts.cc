#include "actors/kubernetes/shell/shell_parts.h"

#include <array>
#include <ctime>

namespace es::actors::kubernetes {
namespace {

std::string formatted(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::array<char, 40> text{};
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), format, &utc);
  return text.data();
}

}  // namespace

std::string core_path(const ControllerOptions& options, const std::string& kind) {
  return "/api/v1/namespaces/" + options.place.name_space + "/" + kind;
}

std::string own_path(const ControllerOptions& options, const std::string& kind) {
  return std::string("/apis/") + kApiVersion + "/namespaces/" + options.place.name_space + "/" +
         kind;
}

std::string leases_path(const ControllerOptions& options) {
  return "/apis/coordination.k8s.io/v1/namespaces/" + options.place.name_space + "/leases";
}

std::string clock_text() {
  return formatted("%Y-%m-%dT%H:%M:%SZ");
}

std::string micro_clock_text() {
  return formatted("%Y-%m-%dT%H:%M:%S.000000Z");
}

}  // namespace es::actors::kubernetes
