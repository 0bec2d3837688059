#include "actors/esctl/views.h"

#include "actors/common/wire_error.h"

namespace es::actors::esctl {
std::vector<JobView> read_jobs(wire::JobList::Reader reader) {
  std::vector<JobView> jobs;
  for (const wire::JobInfo::Reader job : reader.getJobs()) jobs.push_back(read_job(job));
  return jobs;
}

std::vector<NodeView> read_nodes(wire::NodeList::Reader reader) {
  std::vector<NodeView> nodes;
  for (const wire::NodeInfo::Reader n : reader.getNodes()) {
    NodeView node{.name = n.getName().cStr(), .alive = n.getAlive(), .draining = n.getDraining()};
    for (const wire::DeviceInfo::Reader d : n.getDevices())
      node.devices.push_back({.type = d.getType().cStr(),
                              .index = d.getIndex(),
                              .job = d.getJob().cStr(),
                              .suspect = d.getSuspect().cStr()});
    nodes.push_back(std::move(node));
  }
  return nodes;
}

CheckpointView read_checkpoint(wire::CheckpointTaken::Reader c) {
  return {.path = c.getPath().cStr(),
          .version = c.getVersion(),
          .params_digest = c.getParamsDigest().cStr(),
          .state_digest = c.getStateDigest().cStr()};
}

JobEventView read_event(wire::JobEvent::Reader event) {
  switch (event.which()) {
    case wire::JobEvent::INFO:
      return read_job(event.getInfo());
    case wire::JobEvent::LOG_LINE:
      return LogLine{event.getLogLine().cStr()};
    case wire::JobEvent::ENDED:
      break;
  }
  return StreamEnd{};
}

RefusalView read_refusal(wire::Refusal::Reader refusal) {
  return {Error{error_kind_from(refusal.getKind()), refusal.getMessage().cStr()}};
}

}  // namespace es::actors::esctl
