#pragma once
// The text of a job that a client with a tenant submits.
#include <string>

#include "actors/base/access/core/identity.h"

namespace es::actors {

// Returns the text of the job, with the tenant of the client if it has one and the text names none.
// Errors: those of parse_job, with `where`, and of access::tenant_for.
Result<std::string> client_spec(const access::Identity& who, const std::string& toml,
                                const std::string& where);

}  // namespace es::actors
