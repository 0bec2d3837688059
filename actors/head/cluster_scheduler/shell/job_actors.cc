#include "actors/head/cluster_scheduler/shell/job_actors.h"

#include <caf/all.hpp>

#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/head/intra_job/shell/past_job_actor.h"

namespace es::actors {
namespace {

void log_message(const JobId& job, const protocol::Allocation& allocation) {
  if (!log::enabled(log::Level::kInfo)) return;
  std::string devices;
  for (const DeviceId& device : allocation.devices) devices += " " + device.text();
  log::info(
      (devices.empty() ? std::string("the job may use no device") : "the job may use" + devices) +
          (allocation.urgent ? ", at once" : ""),
      {.job = job});
}

void log_message(const JobId& job, const protocol::DemandRefused& refused) {
  log::debug("the demand of the job is refused: " + refused.reason, {.job = job});
}

}  // namespace

JobActors::JobActors(caf::event_based_actor* self, caf::actor gateway,
                     std::shared_ptr<HeadStore> store)
    : self_(self), gateway_(std::move(gateway)), store_(std::move(store)) {
  watch();
}

void JobActors::watch() {
  self_->set_down_handler([this](caf::down_msg& down) {
    children_->erase(down.source.id());
    if (down.reason) self_->quit(std::move(down.reason));
  });
  self_->attach_functor([children = children_](const caf::error&) {
    for (const auto& [id, child] : *children)
      caf::anon_send_exit(child, caf::exit_reason::user_shutdown);
    children->clear();
  });
}

void JobActors::start_companion(const JobId& job, CompanionOptions options) {
  const auto companion = self_->spawn<caf::monitored>(companion_actor, options, store_,
                                                      caf::actor_cast<caf::actor>(self_));
  children_->emplace(companion.id(), companion);
  jobs_[job].companion = companion;
  jobs_[job].shares = std::move(options);
}

void JobActors::start(IntraJobOptions options) {
  Job& job = jobs_[options.job];
  job.actor =
      self_->spawn<caf::monitored>(intra_job_actor, std::move(options),
                                   IntraJobPeers{caf::actor_cast<caf::actor>(self_), job.companion,
                                                 gateway_, store_, present_nodes_});
  children_->emplace(job.actor.id(), job.actor);
}

void JobActors::start_past(JobRecord record, const std::filesystem::path& log_file) {
  const JobId job = record.id;
  jobs_[job].actor = self_->spawn(past_job_actor, std::move(record), log_file, gateway_, store_);
}

void JobActors::forget(const JobId& job) {
  const auto at = jobs_.find(job);
  for (const caf::actor& actor : {at->second.actor, at->second.companion}) {
    if (!actor) continue;
    self_->demonitor(actor);
    children_->erase(actor.id());
    self_->send_exit(actor, caf::exit_reason::normal);
  }
  jobs_.erase(at);
}

std::set<JobId> JobActors::similar_to(const JobId& job) const {
  std::set<JobId> similar;
  const auto of = jobs_.find(job);
  if (of == jobs_.end()) return similar;
  for (const auto& [id, other] : jobs_)
    if (id != job && other.companion && other.shares.is_similar(of->second.shares))
      similar.insert(id);
  return similar;
}

void JobActors::perform(const cluster::Effect& effect) const {
  const auto job = jobs_.find(effect.job);
  if (job == jobs_.end()) return;
  const auto send = [&](const auto& message) {
    log_message(effect.job, message);
    self_->send(job->second.actor, protocol::message_of(message));
  };
  std::visit(send, effect.message);
}

void JobActors::describe(const JobId& job, std::optional<std::chrono::seconds> patience,
                         std::function<void(const Msg<wire::JobDetails>&)> on_details,
                         std::function<void()> on_error) const {
  const caf::duration limit = patience ? caf::duration(*patience) : caf::duration(caf::infinite);
  self_->request(jobs_.at(job).actor, limit, describe_)
      .then([done = std::move(on_details)](const Msg<wire::JobDetails>& details) { done(details); },
            [failed = std::move(on_error)](const caf::error&) { failed(); });
}

}  // namespace es::actors
