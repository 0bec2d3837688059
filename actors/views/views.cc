#include "actors/views/views.h"

#include "actors/base/protocol/wire/wire_error.h"
#include "proto/text_of.h"

namespace es::actors {
std::vector<JobView> read_jobs(wire::JobList::Reader reader) {
  std::vector<JobView> jobs;
  for (const wire::JobInfo::Reader job : reader.getJobs()) jobs.push_back(read_job(job));
  return jobs;
}

std::vector<NodeView> read_nodes(wire::NodeList::Reader reader) {
  std::vector<NodeView> nodes;
  for (const wire::NodeInfo::Reader n : reader.getNodes()) {
    NodeView node{.name = line_of(n.getName()), .alive = n.getAlive(), .draining = n.getDraining()};
    node.checkpoints = line_of(n.getCheckpoints());
    node.clock_ahead_ms = n.getClockAheadMs();
    node.checkpoint_problem = line_of(n.getCheckpointProblem());
    node.rack = line_of(n.getRack());
    node.island_devices = n.getIslandDevices();
    node.spot = n.getSpot();
    node.gone_unix_ms = n.getGoneUnixMs();
    for (const wire::DeviceInfo::Reader d : n.getDevices())
      node.devices.push_back({.type = line_of(d.getType()),
                              .index = d.getIndex(),
                              .job = line_of(d.getJob()),
                              .suspect = line_of(d.getSuspect()),
                              .suspect_until_unix_ms = d.getSuspectUntilUnixMs()});
    for (const auto other : n.getCutFrom()) node.cut_from.push_back(line_of(other));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// Counts of other ranges than those of this release are left out.
DecisionTimes read_decision_times(wire::NodeList::Reader reader) {
  DecisionTimes times;
  if (reader.getDecisionCounts().size() != kDecisionTimeBounds.size() + 1) return times;
  for (const std::uint64_t count : reader.getDecisionCounts()) times.counts.push_back(count);
  times.seconds = reader.getDecisionSeconds();
  return times;
}

CheckpointView read_checkpoint(wire::CheckpointTaken::Reader c) {
  return {.path = line_of(c.getPath()),
          .version = c.getVersion(),
          .params_digest = line_of(c.getParamsDigest()),
          .state_digest = line_of(c.getStateDigest()),
          .first_error = line_of(c.getFirstError())};
}

JobEventView read_event(wire::JobEvent::Reader event) {
  switch (event.which()) {
    case wire::JobEvent::INFO:
      return read_job(event.getInfo());
    case wire::JobEvent::LOG_LINE:
      return LogLine{line_of(event.getLogLine())};
    case wire::JobEvent::ENDED:
      break;
  }
  // A kind that the schema does not have ends the stream too, instead of being taken for an event.
  return StreamEnd{};
}

RefusalView read_refusal(wire::Refusal::Reader refusal) {
  return {Error{error_kind_from(refusal.getKind()), line_of(refusal.getMessage())}};
}

}  // namespace es::actors
