// The intra-job scheduler: performs the effects of its core.
#include <caf/all.hpp>

#include <algorithm>
#include <bit>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"
#include "actors/head/intra_job/shell/job_log_end.h"
#include "proto/base/kill_point.h"
#include "store/metrics/metric.h"

namespace es::actors {

Status IntraJobState::perform_effect(const intra_job::SaveRecord& effect) {
  // The refusals are not the core's, so they stay.
  auto refusals = std::move(options_.record.refusals);
  options_.record = effect.record;
  options_.record.refusals = std::move(refusals);
  // The details of the end are stored before the record, so a restarted head that finds the job
  // over can show them.
  if (is_over(effect.record.state)) {
    if (ended_unix_ms_ == 0) ended_unix_ms_ = options_.unix_ms();
    ES_RETURN_IF_ERROR(save_end());
  }
  kill_point("journal.before");
  ES_RETURN_IF_ERROR(peers_.store->save(options_.record));
  kill_point("journal.after");
  return {};
}

// For clients that ask after a restart of the head.
Status IntraJobState::save_end() {
  const Msg<wire::JobDetails> shown = details(core_->state());
  const auto bytes = shown.frame()->body.asChars();
  return peers_.store->history().save_end(options_.job, {bytes.begin(), bytes.size()});
}

void IntraJobState::send_to(const PeerId& peer, std::shared_ptr<const Frame> frame) {
  self_->send(peers_.gateway, Outbound{peer, std::move(frame)});
}

Status IntraJobState::perform_effect(const intra_job::StartWorker& effect) {
  // The incarnation is durable before the process exists, so no later head can give it out again.
  ES_RETURN_IF_ERROR(peers_.store->keep_incarnations());
  const auto message =
      Msg<wire::StartWorker>::build({.job = options_.job}, [&](wire::StartWorker::Builder b) {
        b.setIncarnation(effect.incarnation.value);
        put(b.initDevice(), effect.device);
        b.setSpecToml(options_.record.spec_toml);
      });
  send_to(node_peer(effect.device.node), message.frame());
  return {};
}

void IntraJobState::perform_effect(const intra_job::KillWorker& effect) {
  const auto& workers = core_->fleet().workers();
  const auto at = workers.find(effect.incarnation);
  if (at == workers.end()) return;
  const auto message = Msg<wire::KillWorker>::build(
      {.job = options_.job},
      [&](wire::KillWorker::Builder b) { b.setIncarnation(effect.incarnation.value); });
  send_to(node_peer(at->second.device.node), message.frame());
}

Status IntraJobState::perform_effect(const intra_job::SendWorker& effect) {
  // Ledger lines and evaluations are written without waiting for the disk. Here they have to be on
  // it, because no worker will have them afterwards.
  if (makes_workers_forget(effect)) ES_RETURN_IF_ERROR(peers_.store->sync());
  if (const auto* install = std::get_if<protocol::Install>(effect.message.get()))
    tell_loss(*install);
  if (std::holds_alternative<protocol::Go>(*effect.message)) lost_steps_->go();
  if (trace_) trace_effect(effect);
  if (std::exchange(encoded_.message, effect.message) != effect.message)
    encoded_.frame = protocol::encode(options_.job, *effect.message);
  send_to(worker_peer(effect.to), encoded_.frame);
  return {};
}

void IntraJobState::perform_effect(const intra_job::Demand& effect) {
  planner_->exact_demand();
  tell_cluster(effect);
}

void IntraJobState::perform_effect(const intra_job::DemandLifted&) {
  act(planner_->exact_demand_lifted(planner_view()));
}

Status IntraJobState::perform_effect(const intra_job::LedgerRewound& effect) {
  kill_point("rewind.before");
  ES_RETURN_IF_ERROR(peers_.store->ledger().rewind(options_.job, effect.through));
  ES_RETURN_IF_ERROR(peers_.store->history().rewind(options_.job, effect.through));
  evaluations_.erase(evaluations_.upper_bound(effect.through), evaluations_.end());
  kill_point("rewind.after");
  return {};
}

Status IntraJobState::perform_effect(const intra_job::LedgerLineAdded& effect) {
  store::LedgerLine line{effect.line.version, {}, effect.line.params};
  if (effect.line.state)
    ES_RETURN_IF_ERROR(peers_.store->history().save_final_state(options_.job, *effect.line.state));
  for (const std::uint32_t bits : effect.line.loss_bits)
    line.losses.push_back(std::bit_cast<float>(bits));
  kill_point("ledger.before");
  // Members forget a line after it is acknowledged, so it is stored first.
  ES_RETURN_IF_ERROR(peers_.store->ledger().append(options_.job, line));
  kill_point("ledger.after");
  if (trace_) trace_ledger(effect.line.version);
  // The step itself was some time ago and was counted when it was held.
  if (writes_held_) return {};
  on_step();
  progress_due_ = true;
  return {};
}

Status IntraJobState::perform_effect(const intra_job::EvaluationAdded& effect) {
  const auto* bytes = reinterpret_cast<const char*>(effect.totals->data());
  // The worker forgets the evaluation after the head has acknowledged it, so it is stored first.
  ES_RETURN_IF_ERROR(peers_.store->history().save_evaluation(options_.job, effect.version,
                                                             {bytes, effect.totals->size()}));
  if (const std::string line = show_evaluation(effect.version, *effect.totals); !line.empty())
    log(line);
  progress_due_ = true;
  return {};
}

// Keeps the evaluation for users and returns a line for the log. Data without evaluation samples
// have no metrics, so there is nothing to show.
std::string IntraJobState::show_evaluation(Version version, const std::vector<std::byte>& bytes) {
  const std::string what = "evaluation of version " + std::to_string(version);
  const auto totals = store::MetricTotals::decode(bytes);
  if (!totals) return what + " cannot be read: " + totals.error().message;
  if (totals->samples == 0) return "";
  EvaluationView& view = evaluations_[version];
  view = {version, totals->samples, {}};
  std::string text;
  if (totals->not_finite > 0)
    text = ": not finite: " + std::to_string(totals->not_finite) + " of " +
           std::to_string(totals->samples) +
           " samples have an output or a loss that is NaN or infinite";
  for (const store::NamedMetric& m : store::summarise(options_.config.spec, *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  return what + text;
}

void IntraJobState::perform_effect(const intra_job::StateChanged& effect) {
  act(planner_->state_changed(effect.state, planner_view()));
  trace_state(effect.state);
  log(std::string("job is ") + state_name(effect.state));
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::LogLine& effect) {
  log(effect.text, effect.is_warning ? log::Level::kWarning : log::Level::kInfo);
}

Status IntraJobState::perform_effect(const intra_job::JobEnded& effect) {
  ES_RETURN_IF_ERROR(save_end());
  const JobLogEnd end = job_log_end(effect.state, effect.error);
  log(end.text, end.level);
  log_file_.close();  // this actor stays, to answer questions
  for (const Follower& follower : followers_) {
    answer_info(follower, effect.state);
    end_follower(follower);
  }
  followers_.clear();
  trace_job_ended(effect.state);
  tell_cluster(protocol::JobEnded{});
  return {};
}

}  // namespace es::actors
