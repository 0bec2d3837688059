#include "actors/kubernetes/core/job_event.h"

namespace es::actors::kubernetes {

JobNews news_of(const Json& status) {
  JobNews news{.key = {}, .reason = text_at(status, {"phase"}), .message = {}};
  for (const Json& condition : value_at(status, {"conditions"}, Json::array())) {
    const std::string message = text_at(condition, {"message"});
    if (text_at(condition, {"reason"}).starts_with("Refused")) {
      news.is_warning = true;
      news.reason = "Refused";
      news.message = message;
      break;
    }
    if (news.message.empty() || text_at(condition, {"type"}) == "Training") news.message = message;
  }
  // The placement changes with each step of scaling, and is worth an event.
  news.key = news.reason + "|" + (news.is_warning ? news.message : text_at(status, {"placement"}));
  return news;
}

Json job_event(const Json& job, const JobNews& news, const std::string& now) {
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"generateName", name_of(job) + "."}}},
          {"involvedObject",
           {{"apiVersion", kApiVersion},
            {"kind", "ElasticTrainingJob"},
            {"namespace", text_at(job, {"metadata", "namespace"})},
            {"name", name_of(job)},
            {"uid", text_at(job, {"metadata", "uid"})}}},
          {"type", news.is_warning ? "Warning" : "Normal"},
          {"reason", news.reason},
          {"message", news.message},
          {"source", {{"component", kManager}}},
          {"firstTimestamp", now},
          {"lastTimestamp", now},
          {"count", 1}};
}

}  // namespace es::actors::kubernetes
