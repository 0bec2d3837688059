// The intra-job scheduler: what its core wants done.
#include <caf/all.hpp>

#include <algorithm>
#include <bit>

#include "actors/common/wire_devices.h"
#include "actors/intra_job/intra_job_actor.h"
#include "actors/intra_job/journal_record.h"
#include "actors/node_agent/node_agent_actor.h"
#include "actors/protocol/codec.h"
#include "actors/worker/worker_actor.h"
#include "proto/base/kill_point.h"
#include "store/checkpoint/catalog.h"
#include "store/metrics/metric.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;

// Whether `name` is `prefix` and a number.
bool is_numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  return name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

}  // namespace

void IntraJobState::perform(intra_job::Effects effects) {
  for (const intra_job::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
  if (progress_due_) tell_followers_progress();
  progress_due_ = false;
  arm_tick();
}

void IntraJobState::perform_effect(const intra_job::SaveRecord& effect) {
  update(options_.record, effect.record);
  if (intra_job::is_over(effect.record.state)) save_end();
  kill_point("journal.before");
  const Status status = peers_.store->save(options_.record);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "journal: " + status.error().message);
  kill_point("journal.after");
}

// For those who ask after a restart of the head.
void IntraJobState::save_end() {
  const Msg<wire::JobDetails> shown = details();
  const auto bytes = shown.frame()->body.asChars();
  const Status status =
      peers_.store->history().save_end(options_.job, {bytes.begin(), bytes.size()});
  if (!status.ok()) log("the end of the job is not kept: " + status.error().message);
}

void IntraJobState::send_to(const PeerId& peer, std::shared_ptr<const Frame> frame) {
  self_->send(peers_.gateway, Outbound{peer, std::move(frame)});
}

void IntraJobState::perform_effect(const intra_job::StartWorker& effect) {
  const auto message =
      Msg<wire::StartWorker>::build({.job = options_.job}, [&](wire::StartWorker::Builder b) {
        b.setIncarnation(effect.incarnation.value);
        put(b.initDevice(), effect.device);
        b.setSpecToml(options_.spec_toml);
      });
  send_to(node_peer(effect.device.node), message.frame());
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

void IntraJobState::perform_effect(const intra_job::SendWorker& effect) {
  if (const auto* install = std::get_if<protocol::Install>(&effect.message)) tell_loss(*install);
  if (std::holds_alternative<protocol::Go>(effect.message)) lost_steps_->go();
  send_to(worker_peer(effect.to), protocol::encode(options_.job, effect.message));
}

void IntraJobState::perform_effect(const intra_job::Demand& effect) {
  demand_is_exact_ = true;
  self_->send(peers_.cluster,
              Msg<wire::Demand>::build({.job = options_.job}, [&](wire::Demand::Builder b) {
                put(b.initExact(effect.devices.counts.size()), effect.devices);
              }));
}

void IntraJobState::perform_effect(const intra_job::DemandLifted&) {
  demand_is_exact_ = false;
  query_plans();
}

void IntraJobState::perform_effect(const intra_job::DeviceReleased& effect) {
  self_->send(peers_.cluster, Msg<wire::DeviceReleased>::build(
                                  {.job = options_.job}, [&](wire::DeviceReleased::Builder b) {
                                    put(b.initDevice(), effect.device);
                                  }));
}

void IntraJobState::perform_effect(const intra_job::DeviceSuspected& effect) {
  self_->send(peers_.cluster, Msg<wire::DeviceSuspected>::build(
                                  {.job = options_.job}, [&](wire::DeviceSuspected::Builder b) {
                                    put(b.initDevice(), effect.device);
                                    b.setReason(effect.reason);
                                  }));
}

void IntraJobState::perform_effect(const intra_job::LedgerRewound& effect) {
  kill_point("rewind.before");
  const Status status = peers_.store->ledger().rewind(options_.job, effect.through);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "ledger: " + status.error().message);
  evaluations_.erase(evaluations_.upper_bound(effect.through), evaluations_.end());
  const Status rewound = peers_.store->history().rewind(options_.job, effect.through);
  ES_CHECK_MSG(rewound.ok(), rewound.ok() ? "" : "evaluations: " + rewound.error().message);
  kill_point("rewind.after");
}

void IntraJobState::perform_effect(const intra_job::RemoveCheckpoints& effect) {
  for (const std::string& path : effect.paths) {
    const Status removed = store::remove_checkpoint(store::posix_file_system(), path);
    if (removed.ok()) {
      log("checkpoint " + path + " is removed");
    } else if (removed.error().kind != ErrorKind::kNotFound) {
      log("warning: a checkpoint that is not wanted any more stays: " + removed.error().message);
    }
  }
}

// Also those that were written when nobody waited for them any more: the record has none of these.
void IntraJobState::perform_effect(const intra_job::KeepSuspensions& effect) {
  const fs::path prefix = options_.config.suspend_prefix;
  intra_job::RemoveCheckpoints remove;
  std::error_code code;  // a directory that is not there holds none
  for (fs::directory_iterator at(prefix.parent_path(), code), end; !code && at != end;
       at.increment(code)) {
    const std::string path = at->path().string();
    if (!is_numbered(at->path().filename().string(), prefix.filename().string())) continue;
    if (std::ranges::find(effect.paths, path) == effect.paths.end()) remove.paths.push_back(path);
  }
  perform_effect(remove);
}

void IntraJobState::perform_effect(const intra_job::LedgerLineAdded& effect) {
  store::LedgerLine line{effect.line.version, {}, effect.line.params};
  if (effect.line.state) {
    const Status saved = peers_.store->history().save_final_state(options_.job, *effect.line.state);
    ES_CHECK_MSG(saved.ok(), saved.ok() ? "" : "final state: " + saved.error().message);
  }
  for (const std::uint32_t bits : effect.line.loss_bits)
    line.losses.push_back(std::bit_cast<float>(bits));
  kill_point("ledger.before");
  // Members forget a line once it is acknowledged, so it must not be lost.
  const Status status = peers_.store->ledger().append(options_.job, line);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "ledger: " + status.error().message);
  kill_point("ledger.after");
  on_step();
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::EvaluationAdded& effect) {
  const auto* bytes = reinterpret_cast<const char*>(effect.totals->data());
  // Its worker forgets it once the head has said that it knows it.
  const Status status = peers_.store->history().save_evaluation(options_.job, effect.version,
                                                                {bytes, effect.totals->size()});
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "evaluation: " + status.error().message);
  log(show_evaluation(effect.version, *effect.totals));
  progress_due_ = true;
}

// Keeps it for people; returns a line for the log.
std::string IntraJobState::show_evaluation(Version version, const std::vector<std::byte>& bytes) {
  const std::string what = "evaluation of version " + std::to_string(version);
  const auto totals = store::MetricTotals::decode(bytes);
  if (!totals) return what + " cannot be read: " + totals.error().message;
  EvaluationView& view = evaluations_[version];
  view = {version, totals->samples, {}};
  std::string text;
  for (const store::NamedMetric& m : store::summarise(task_of(options_.spec.model), *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  return what + text;
}

void IntraJobState::perform_effect(const intra_job::StateChanged& effect) {
  measure_pause(effect.state);
  if (effect.state == intra_job::JobState::kRunning) {
    has_run_ = true;
    query_plans();
  }
  log(std::string("job is ") + intra_job::state_name(effect.state));
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::LogLine& effect) {
  log(effect.text);
}

void IntraJobState::perform_effect(const intra_job::JobEnded& effect) {
  log(std::string("job ended: ") + intra_job::state_name(effect.state) +
      (effect.error.empty() ? "" : ": " + effect.error));
  log_file_.close();  // this actor stays, to answer questions
  save_end();
  for (const Follower& follower : followers_) {
    answer_info(follower);
    end_follower(follower);
  }
  followers_.clear();
  self_->send(peers_.cluster, Msg<wire::JobEnded>::build({.job = options_.job}, [](auto) {}));
}

}  // namespace es::actors
