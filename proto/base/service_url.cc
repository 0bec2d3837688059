#include "proto/base/service_url.h"

#include <algorithm>

namespace es {

Status check_service_url(const std::string& option, const std::string& url) {
  const bool plain = url.starts_with("http://"), secure = url.starts_with("https://");
  const std::string host = url.substr(plain ? 7 : secure ? 8 : 0);
  const bool printable =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if ((plain || secure) && printable && !host.empty() && host[0] != '/' &&
      host.substr(0, host.find('/')).find('@') == std::string::npos)
    return {};
  return usage_error(option + " = \"" + url +
                     "\": allowed is http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH] "
                     "without a user name");
}

}  // namespace es
