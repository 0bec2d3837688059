#include "actors/base/job_file/client_spec.h"

#include "actors/base/access/core/requests.h"
#include "actors/base/job_file/job_file.h"

namespace es::actors {

Result<std::string> client_spec(const access::Identity& who, const std::string& toml,
                                const std::string& where) {
  auto spec = parse_job(toml, where);
  if (!spec) return spec.error();
  auto tenant = access::tenant_for(who, spec->resources.tenant);
  if (!tenant) return tenant.error();
  if (*tenant == spec->resources.tenant) return toml;
  spec->resources.tenant = *std::move(tenant);
  return to_toml(*spec);
}

}  // namespace es::actors
