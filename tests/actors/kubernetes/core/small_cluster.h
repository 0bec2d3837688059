#pragma once
// An EasyScaleCluster with two groups of agents.
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

inline const Json kCluster =
    Json::parse(R"({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
    "spec": {"image": "i:1", "idleSeconds": 60, "head": {"storage": "5Gi"}, "agents": [
      {"name": "big", "devices": "h100:8", "min": 1, "max": 2, "spot": true,
       "options": ["--rack", "r1"],
       "template": {"nodeSelector": {"gpu": "h100"}, "volumes": [{"name": "d"}]}},
      {"name": "small", "devices": "cpu-avx2:1", "max": 40}]}})");

}  // namespace es::actors::kubernetes
