#pragma once
// The status of an EasyScaleCluster. Pure.
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

// `head`: null: none answers, because of `trouble`. `now`: the time of day in RFC 3339.
Json cluster_status(const Json& cluster, const HeadFacts* head, const std::string& trouble,
                    const std::string& now);

}  // namespace es::actors::kubernetes
