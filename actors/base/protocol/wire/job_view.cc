#include "actors/base/protocol/wire/job_view.h"

#include "proto/text_of.h"

namespace es::actors {
namespace {

template <class List, class Item, class Put>
void put_all(List list, const std::vector<Item>& items, Put put_one) {
  for (std::size_t i = 0; i < items.size(); ++i) put_one(list[i], items[i]);
}

void put_stage(wire::StageInfo::Builder b, const StageView& stage) {
  b.setPlacement(stage.placement);
  b.setSteps(stage.steps);
  b.setSeconds(stage.seconds);
  b.setRescaleSeconds(stage.rescale_seconds);
}

void put_metric(wire::Metric::Builder b, const MetricView& metric) {
  b.setName(metric.name);
  b.setValue(metric.value);
}

void put_evaluation(wire::EvaluationInfo::Builder b, const EvaluationView& evaluation) {
  b.setVersion(evaluation.version);
  b.setTotal(evaluation.total);
  put_all(b.initMetrics(evaluation.metrics.size()), evaluation.metrics, put_metric);
}

void put_worker(wire::WorkerInfo::Builder b, const WorkerView& worker) {
  b.setIncarnation(worker.incarnation);
  b.setNode(worker.node);
  b.setDeviceType(worker.device_type);
  b.setDeviceIndex(worker.device_index);
  b.setRankBegin(worker.rank_begin);
  b.setRankEnd(worker.rank_end);
  b.setPid(worker.pid);
  b.setLocalStepSeconds(worker.local_step_seconds);
  b.setSamplesPerSecond(worker.samples_per_second);
  b.setSlowness(worker.slowness);
  auto ests = b.initEstSeconds(static_cast<unsigned>(worker.est_seconds.size()));
  for (unsigned i = 0; i < worker.est_seconds.size(); ++i) ests.set(i, worker.est_seconds[i]);
  b.setPeakRssMib(worker.peak_rss_mib);
  b.setSentBytes(worker.sent_bytes);
}

std::vector<StageView> read_stages(capnp::List<wire::StageInfo>::Reader list) {
  std::vector<StageView> stages;
  for (const wire::StageInfo::Reader s : list)
    stages.push_back({.placement = line_of(s.getPlacement()),
                      .steps = s.getSteps(),
                      .seconds = s.getSeconds(),
                      .rescale_seconds = s.getRescaleSeconds()});
  return stages;
}

std::vector<MetricView> read_metrics(capnp::List<wire::Metric>::Reader list) {
  std::vector<MetricView> metrics;
  for (const wire::Metric::Reader m : list)
    metrics.push_back({.name = line_of(m.getName()), .value = m.getValue()});
  return metrics;
}

std::vector<EvaluationView> read_evaluations(capnp::List<wire::EvaluationInfo>::Reader list) {
  std::vector<EvaluationView> evaluations;
  for (const wire::EvaluationInfo::Reader e : list)
    evaluations.push_back({.version = e.getVersion(),
                           .total = e.getTotal(),
                           .metrics = read_metrics(e.getMetrics())});
  return evaluations;
}

std::vector<double> read_seconds(capnp::List<double>::Reader list) {
  std::vector<double> seconds;
  for (const double s : list) seconds.push_back(s);
  return seconds;
}

std::vector<WorkerView> read_workers(capnp::List<wire::WorkerInfo>::Reader list) {
  std::vector<WorkerView> workers;
  for (const wire::WorkerInfo::Reader w : list)
    workers.push_back({.incarnation = w.getIncarnation(),
                       .node = line_of(w.getNode()),
                       .device_type = line_of(w.getDeviceType()),
                       .device_index = w.getDeviceIndex(),
                       .rank_begin = w.getRankBegin(),
                       .rank_end = w.getRankEnd(),
                       .pid = w.getPid(),
                       .local_step_seconds = w.getLocalStepSeconds(),
                       .samples_per_second = w.getSamplesPerSecond(),
                       .slowness = w.getSlowness(),
                       .est_seconds = read_seconds(w.getEstSeconds()),
                       .peak_rss_mib = w.getPeakRssMib(),
                       .sent_bytes = w.getSentBytes()});
  return workers;
}

std::vector<PauseView> read_pauses(capnp::List<wire::PauseInfo>::Reader list) {
  std::vector<PauseView> pauses;
  for (const wire::PauseInfo::Reader p : list)
    pauses.push_back(
        {.cause = line_of(p.getCause()), .count = p.getCount(), .seconds = p.getSeconds()});
  return pauses;
}

// Counts of other ranges than those of this release are left out.
StepTimes read_step_times(wire::JobInfo::Reader j) {
  StepTimes times;
  if (j.getStepCounts().size() != kStepTimeBounds.size() + 1) return times;
  for (const std::uint64_t count : j.getStepCounts()) times.counts.push_back(count);
  times.seconds = j.getStepSeconds();
  return times;
}

DecisionsView read_decisions(wire::DecisionsInfo::Reader d) {
  return {.best_metric = line_of(d.getBestMetric()),
          .best_version = d.getBestVersion(),
          .best_value = d.getBestValue(),
          .best_checkpoint = line_of(d.getBestCheckpoint()),
          .reductions = d.getReductions(),
          .reduced_at = d.getReducedAt(),
          .stopped_at = d.getStoppedAt()};
}

}  // namespace

std::uint64_t recoveries_of(const JobView& job) {
  std::uint64_t count = 0;
  for (const PauseView& pause : job.pauses)
    if (pause.cause == "worker_lost" || pause.cause == "link" || pause.cause == "audit")
      count += pause.count;
  return count;
}

void put(wire::JobInfo::Builder b, const JobView& view) {
  b.setId(view.id);
  b.setName(view.name);
  b.setState(view.state);
  b.setLevel(view.level);
  b.setMaxP(view.max_p);
  b.setStep(view.step);
  b.setLastStep(view.last_step);
  b.setPlacement(view.placement);
  b.setLossFirst(view.loss_first);
  b.setLossLast(view.loss_last);
  b.setSamplesPerSecond(view.samples_per_second_mean);
  b.setSamplesPerSecondNow(view.samples_per_second_now);
  b.setPeakRssMib(view.peak_rss_mib);
  b.setContextSwitchShare(view.context_switch_share);
  b.setDataWaitShare(view.data_wait_share);
  b.setParamsDigest(view.params_digest);
  b.setStateDigest(view.state_digest);
  put_all(b.initStages(view.stages.size()), view.stages, put_stage);
  put_all(b.initEvaluations(view.evaluations.size()), view.evaluations, put_evaluation);
  put_all(b.initWorkers(view.workers.size()), view.workers, put_worker);
  b.setError(view.error);
  b.setSubmittedUnixMs(view.submitted_unix_ms);
  b.setCheckpoint(view.checkpoint);
  b.setWaitingFor(view.waiting_for);
  b.setWarning(view.warning);
  b.setTenant(view.tenant);
  b.setDevicesWanted(view.devices_wanted);
  b.setStepSeconds(view.step_times.seconds);
  auto counts = b.initStepCounts(static_cast<unsigned>(view.step_times.counts.size()));
  for (unsigned i = 0; i < counts.size(); ++i) counts.set(i, view.step_times.counts[i]);
  put_all(b.initPauses(view.pauses.size()), view.pauses,
          [](wire::PauseInfo::Builder pause, const PauseView& p) {
            pause.setCause(p.cause);
            pause.setCount(p.count);
            pause.setSeconds(p.seconds);
          });
  b.setMessageBytes(view.message_bytes);
  b.setSharedMemoryBytes(view.shared_memory_bytes);
  b.setChannelBytes(view.channel_bytes);
  b.setCheckpointsWritten(view.checkpoints_written);
  b.setCheckpointSeconds(view.checkpoint_seconds);
  b.setCheckpointsFailed(view.checkpoints_failed);
  b.setRepeatedSteps(view.repeated_steps);
  b.setStartRetries(view.start_retries);
  b.setSpent(view.spent);
  b.setPricePerHour(view.price_per_hour);
  b.setBudget(view.budget);
  b.setEndedUnixMs(view.ended_unix_ms);
  b.setSubmitter(view.submitter);
  const DecisionsView& d = view.decisions;
  auto decisions = b.initDecisions();
  decisions.setBestMetric(d.best_metric);
  decisions.setBestVersion(d.best_version);
  decisions.setBestValue(d.best_value);
  decisions.setBestCheckpoint(d.best_checkpoint);
  decisions.setReductions(d.reductions);
  decisions.setReducedAt(d.reduced_at);
  decisions.setStoppedAt(d.stopped_at);
}

JobView read_job(wire::JobInfo::Reader j) {
  return {.id = line_of(j.getId()),
          .name = line_of(j.getName()),
          .state = line_of(j.getState()),
          .level = line_of(j.getLevel()),
          .max_p = j.getMaxP(),
          .step = j.getStep(),
          .last_step = j.getLastStep(),
          .placement = line_of(j.getPlacement()),
          .loss_first = j.getLossFirst(),
          .loss_last = j.getLossLast(),
          .samples_per_second_mean = j.getSamplesPerSecond(),
          .samples_per_second_now = j.getSamplesPerSecondNow(),
          .peak_rss_mib = j.getPeakRssMib(),
          .context_switch_share = j.getContextSwitchShare(),
          .data_wait_share = j.getDataWaitShare(),
          .params_digest = line_of(j.getParamsDigest()),
          .state_digest = line_of(j.getStateDigest()),
          .stages = read_stages(j.getStages()),
          .evaluations = read_evaluations(j.getEvaluations()),
          .workers = read_workers(j.getWorkers()),
          .error = line_of(j.getError()),
          .submitted_unix_ms = j.getSubmittedUnixMs(),
          .checkpoint = line_of(j.getCheckpoint()),
          .waiting_for = line_of(j.getWaitingFor()),
          .warning = line_of(j.getWarning()),
          .tenant = line_of(j.getTenant()),
          .devices_wanted = j.getDevicesWanted(),
          .step_times = read_step_times(j),
          .pauses = read_pauses(j.getPauses()),
          .message_bytes = j.getMessageBytes(),
          .shared_memory_bytes = j.getSharedMemoryBytes(),
          .channel_bytes = j.getChannelBytes(),
          .checkpoints_written = j.getCheckpointsWritten(),
          .checkpoints_failed = j.getCheckpointsFailed(),
          .checkpoint_seconds = j.getCheckpointSeconds(),
          .repeated_steps = j.getRepeatedSteps(),
          .start_retries = j.getStartRetries(),
          .spent = j.getSpent(),
          .price_per_hour = j.getPricePerHour(),
          .budget = j.getBudget(),
          .ended_unix_ms = j.getEndedUnixMs(),
          .submitter = line_of(j.getSubmitter()),
          .decisions = read_decisions(j.getDecisions())};
}

void put(wire::SpanInfo::Builder b, const SpanView& view) {
  b.setBeginSeconds(view.begin_seconds);
  b.setSeconds(view.seconds);
  b.setPauseSeconds(view.pause_seconds);
  b.setCause(view.cause);
  b.setFirstStep(view.first_step);
  b.setSteps(view.steps);
  auto devices = b.initDevices(static_cast<unsigned>(view.devices.size()));
  for (unsigned i = 0; i < devices.size(); ++i) devices.set(i, view.devices[i]);
}

TimelineView read_timeline(wire::JobDetails::Reader reader) {
  TimelineView timeline;
  for (const wire::SpanInfo::Reader s : reader.getTimeline()) {
    SpanView span{.begin_seconds = s.getBeginSeconds(),
                  .seconds = s.getSeconds(),
                  .pause_seconds = s.getPauseSeconds(),
                  .cause = line_of(s.getCause()),
                  .first_step = s.getFirstStep(),
                  .steps = s.getSteps()};
    for (const auto device : s.getDevices()) span.devices.push_back(line_of(device));
    timeline.spans.push_back(std::move(span));
  }
  for (const wire::ProgressInfo::Reader p : reader.getProgress())
    timeline.progress.emplace_back(p.getSeconds(), p.getSteps());
  return timeline;
}

}  // namespace es::actors
