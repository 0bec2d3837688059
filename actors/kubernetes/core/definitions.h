#pragma once
// The custom resources of EasyScale: ElasticTrainingJob, whose schema follows from the table of job
// fields, and EasyScaleCluster. `esctl kubernetes crd` prints them, and the chart in
// configs/kubernetes has this text.
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

Json job_definition();
Json cluster_definition();

// Both definitions as YAML.
std::string definitions_yaml();

}  // namespace es::actors::kubernetes
