#include "actors/intra_job/job_view.h"

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

void put_evaluation(wire::EvaluationInfo::Builder b, const EvaluationView& evaluation) {
  b.setVersion(evaluation.version);
  b.setCorrect(evaluation.correct);
  b.setTotal(evaluation.total);
  b.setMeanLoss(evaluation.mean_loss);
}

void put_worker(wire::WorkerInfo::Builder b, const WorkerView& worker) {
  b.setIncarnation(worker.incarnation.value);
  b.setNode(worker.device.node);
  b.setDeviceType(worker.device.type.name);
  b.setDeviceIndex(worker.device.index);
  b.setRankBegin(worker.ranks.begin);
  b.setRankEnd(worker.ranks.end);
  b.setPid(worker.pid);
}

void read_lists(wire::JobInfo::Reader r, JobView& view) {
  for (const auto s : r.getStages())
    view.stages.push_back(
        {s.getPlacement().cStr(), s.getSteps(), s.getSeconds(), s.getRescaleSeconds()});
  for (const auto e : r.getEvaluations())
    view.evaluations.push_back({e.getVersion(), e.getCorrect(), e.getTotal(), e.getMeanLoss()});
  for (const auto w : r.getWorkers())
    view.workers.push_back({{w.getIncarnation()},
                            {w.getNode().cStr(), {w.getDeviceType().cStr()}, w.getDeviceIndex()},
                            {w.getRankBegin(), w.getRankEnd()},
                            w.getPid()});
}

}  // namespace

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
  b.setSamplesPerSecond(view.samples_per_second);
  b.setPeakRssMib(view.peak_rss_mib);
  b.setParamsDigest(view.params_digest);
  b.setStateDigest(view.state_digest);
  put_all(b.initStages(view.stages.size()), view.stages, put_stage);
  put_all(b.initEvaluations(view.evaluations.size()), view.evaluations, put_evaluation);
  put_all(b.initWorkers(view.workers.size()), view.workers, put_worker);
  b.setError(view.error);
  b.setSubmittedUnixMs(view.submitted_unix_ms);
  b.setCheckpoint(view.checkpoint);
}

JobView job_view_from(wire::JobInfo::Reader r) {
  JobView view;
  view.id = r.getId().cStr();
  view.name = r.getName().cStr();
  view.state = r.getState().cStr();
  view.level = r.getLevel().cStr();
  view.max_p = r.getMaxP();
  view.step = r.getStep();
  view.last_step = r.getLastStep();
  view.placement = r.getPlacement().cStr();
  view.loss_first = r.getLossFirst();
  view.loss_last = r.getLossLast();
  view.samples_per_second = r.getSamplesPerSecond();
  view.peak_rss_mib = r.getPeakRssMib();
  view.params_digest = r.getParamsDigest().cStr();
  view.state_digest = r.getStateDigest().cStr();
  read_lists(r, view);
  view.error = r.getError().cStr();
  view.submitted_unix_ms = r.getSubmittedUnixMs();
  view.checkpoint = r.getCheckpoint().cStr();
  return view;
}

}  // namespace es::actors
