#pragma once
// The quotas of tenants as program options.
#include <string>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::actors {

// Each text is "TENANT=TYPE:COUNT[+TYPE:COUNT...]". Error (usage): a text is malformed, or a tenant
// occurs twice.
inline Result<std::vector<scheduler::Quota>> parse_quotas(const std::vector<std::string>& texts) {
  std::vector<scheduler::Quota> quotas;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return usage_error("--quota " + text + ": allowed is TENANT=TYPE:COUNT[+TYPE:COUNT...]");
    auto devices = parse_device_set(text.substr(equals + 1));
    if (!devices) return usage_error("--quota " + text + ": " + devices.error().message);
    const std::string tenant = text.substr(0, equals);
    for (const scheduler::Quota& other : quotas)
      if (other.tenant == tenant)
        return usage_error("--quota " + text +
                           ": this tenant has a quota already; allowed is one for each tenant");
    quotas.push_back({tenant, *std::move(devices)});
  }
  return quotas;
}

}  // namespace es::actors
