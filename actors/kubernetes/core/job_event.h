#pragma once
// Events of an ElasticTrainingJob: what `kubectl describe` shows as its history. Pure.
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

struct JobNews {
  std::string key;  // a status with the same key is no news
  std::string reason, message;
  bool is_warning = false;
};

// What a status has to tell: its phase and its placement, or what was refused.
JobNews news_of(const Json& status);
// `now`: the time of day in RFC 3339.
Json job_event(const Json& job, const JobNews& news, const std::string& now);

}  // namespace es::actors::kubernetes
