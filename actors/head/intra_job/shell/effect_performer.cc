#include "actors/head/intra_job/shell/effect_performer.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/head/intra_job/core/held_effects.h"
#include "actors/head/intra_job/shell/job_log_end.h"

namespace es::actors {

template <class Other>
auto EffectPerformer::perform_one(const Other& effect) {
  if constexpr (requires { parts_.nodes.perform(effect); })
    return parts_.nodes.perform(effect);
  else if constexpr (requires { parts_.requests.answer(effect); })
    return parts_.requests.answer(effect);
  else
    return parts_.mail.to_cluster(effect);
}

Status EffectPerformer::perform(const intra_job::Effect& effect) {
  return std::visit(
      [this](const auto& e) -> Status {
        if constexpr (std::is_void_v<decltype(perform_one(e))>) {
          perform_one(e);
          return {};
        } else {
          return perform_one(e);
        }
      },
      effect);
}

Status EffectPerformer::perform_one(const intra_job::SaveRecord& effect) {
  parts_.archive.adopt(effect.record, parts_.clock.unix_ms());
  // The details of the end are stored before the record, so a restarted head that finds the job
  // over can show them.
  if (is_over(effect.record.state))
    ES_RETURN_IF_ERROR(parts_.archive.save_end(parts_.views.details(parts_.core.state())));
  return parts_.archive.save();
}

Status EffectPerformer::perform_one(const intra_job::SendWorker& effect) {
  // Ledger lines and evaluations are written without waiting for the disk. Here they have to be on
  // it, because no worker will have them afterwards.
  if (makes_workers_forget(effect)) ES_RETURN_IF_ERROR(parts_.archive.sync());
  if (const auto* install = std::get_if<protocol::Install>(effect.message.get()))
    tell_loss(*install);
  if (std::holds_alternative<protocol::Go>(*effect.message)) parts_.lost_steps.go();
  parts_.traces.sends(effect);
  if (std::exchange(encoded_.message, effect.message) != effect.message)
    encoded_.frame = protocol::encode(parts_.archive.record().id, *effect.message);
  parts_.mail.to_peer(worker_peer(effect.to), encoded_.frame);
  return {};
}

void EffectPerformer::tell_loss(const protocol::Install& install) {
  const std::uint64_t lost =
      parts_.lost_steps.install(install.stamp.generation, install.target,
                                parts_.core.ledger().through(), install.last_version);
  if (lost > 0)
    parts_.log.write("the job continues from version " + std::to_string(install.target) +
                     ", steps to compute again: " + std::to_string(lost));
}

Status EffectPerformer::perform_one(const intra_job::LedgerRewound& effect) {
  ES_RETURN_IF_ERROR(parts_.archive.rewind(effect.through));
  parts_.evaluations.rewind(effect.through);
  return {};
}

Status EffectPerformer::perform_one(const intra_job::LedgerLineAdded& effect) {
  // Members forget a line after it is acknowledged, so it is stored first.
  ES_RETURN_IF_ERROR(parts_.archive.append(effect.line));
  parts_.traces.ledger_line(effect.line.version);
  return {};
}

Status EffectPerformer::perform_one(const intra_job::EvaluationAdded& effect) {
  // The worker forgets the evaluation after the head has acknowledged it, so it is stored first.
  ES_RETURN_IF_ERROR(parts_.archive.save_evaluation(effect.version, *effect.totals));
  const std::string line = parts_.evaluations.add(effect.version, *effect.totals);
  if (!line.empty()) parts_.log.write(line);
  parts_.followers.progress();
  return {};
}

void EffectPerformer::perform_one(const intra_job::StateChanged& effect) {
  parts_.plans.state_changed(effect.state);
  parts_.traces.state_changed(effect.state);
  parts_.log.write(std::string("job is ") + state_name(effect.state));
  parts_.followers.progress();
}

void EffectPerformer::perform_one(const intra_job::LogLine& effect) {
  parts_.log.write(effect.text, effect.is_warning ? log::Level::kWarning : log::Level::kInfo);
}

Status EffectPerformer::perform_one(const intra_job::JobEnded& effect) {
  ES_RETURN_IF_ERROR(parts_.archive.save_end(parts_.views.details(parts_.core.state())));
  const JobLogEnd end = job_log_end(effect.state, effect.error);
  parts_.log.write(end.text, end.level);
  parts_.log.close_file();  // the actor stays, to answer questions
  parts_.followers.end(effect.state);
  parts_.traces.job_ended(effect.state);
  parts_.mail.to_cluster(protocol::JobEnded{});
  return {};
}

}  // namespace es::actors
