#include "actors/esctl/views.h"

namespace es::actors::esctl {
namespace {

std::vector<StageView> read_stages(capnp::List<wire::StageInfo>::Reader list) {
  std::vector<StageView> stages;
  for (const wire::StageInfo::Reader s : list)
    stages.push_back({.placement = s.getPlacement().cStr(),
                      .steps = s.getSteps(),
                      .seconds = s.getSeconds(),
                      .rescale_seconds = s.getRescaleSeconds()});
  return stages;
}

std::vector<EvaluationView> read_evaluations(capnp::List<wire::EvaluationInfo>::Reader list) {
  std::vector<EvaluationView> evaluations;
  for (const wire::EvaluationInfo::Reader e : list)
    evaluations.push_back({.version = e.getVersion(),
                           .correct = e.getCorrect(),
                           .total = e.getTotal(),
                           .mean_loss = e.getMeanLoss()});
  return evaluations;
}

std::vector<WorkerView> read_workers(capnp::List<wire::WorkerInfo>::Reader list) {
  std::vector<WorkerView> workers;
  for (const wire::WorkerInfo::Reader w : list)
    workers.push_back({.incarnation = w.getIncarnation(),
                       .node = w.getNode().cStr(),
                       .device_type = w.getDeviceType().cStr(),
                       .device_index = w.getDeviceIndex(),
                       .rank_begin = w.getRankBegin(),
                       .rank_end = w.getRankEnd(),
                       .pid = w.getPid()});
  return workers;
}

// A kind that this version does not know is a plain failure.
ErrorKind error_kind(std::uint8_t kind) {
  return kind <= static_cast<std::uint8_t>(ErrorKind::kRefused) ? static_cast<ErrorKind>(kind)
                                                                : ErrorKind::kFailure;
}

}  // namespace

JobView read_job(wire::JobInfo::Reader j) {
  return {.id = j.getId().cStr(),
          .name = j.getName().cStr(),
          .state = j.getState().cStr(),
          .level = j.getLevel().cStr(),
          .max_p = j.getMaxP(),
          .step = j.getStep(),
          .last_step = j.getLastStep(),
          .placement = j.getPlacement().cStr(),
          .loss_first = j.getLossFirst(),
          .loss_last = j.getLossLast(),
          .samples_per_second = j.getSamplesPerSecond(),
          .peak_rss_mib = j.getPeakRssMib(),
          .params_digest = j.getParamsDigest().cStr(),
          .state_digest = j.getStateDigest().cStr(),
          .stages = read_stages(j.getStages()),
          .evaluations = read_evaluations(j.getEvaluations()),
          .workers = read_workers(j.getWorkers()),
          .error = j.getError().cStr(),
          .submitted_unix_ms = j.getSubmittedUnixMs(),
          .checkpoint = j.getCheckpoint().cStr()};
}

std::vector<JobView> read_jobs(wire::JobList::Reader reader) {
  std::vector<JobView> jobs;
  for (const wire::JobInfo::Reader job : reader.getJobs()) jobs.push_back(read_job(job));
  return jobs;
}

std::vector<NodeView> read_nodes(wire::NodeList::Reader reader) {
  std::vector<NodeView> nodes;
  for (const wire::NodeInfo::Reader n : reader.getNodes()) {
    NodeView node{.name = n.getName().cStr(), .alive = n.getAlive()};
    for (const wire::DeviceInfo::Reader d : n.getDevices())
      node.devices.push_back(
          {.type = d.getType().cStr(), .index = d.getIndex(), .job = d.getJob().cStr()});
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
  return {Error{error_kind(refusal.getKind()), refusal.getMessage().cStr()}};
}

}  // namespace es::actors::esctl
