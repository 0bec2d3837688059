#pragma once
// The keys of a cluster in their Secret.
#include <string>

#include "actors/base/gateway/shell/keys.h"
#include "actors/kubernetes/core/names.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

// The content (stringData) of a Secret with the keys of a new cluster. Errors: no temporary
// directory, and those of create_cluster_keys.
Result<Json> new_cluster_keys();
// The keys of a client in `data` of such a Secret. Errors: a key is missing, and those of
// read_cluster_keys.
Result<ClusterKeys> client_keys(const Json& data);

}  // namespace es::actors::kubernetes
