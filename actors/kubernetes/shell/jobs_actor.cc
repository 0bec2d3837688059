#include "actors/kubernetes/shell/jobs_actor.h"

#include <set>

#include "actors/kubernetes/core/agent_groups.h"

namespace es::actors::kubernetes {
namespace {

std::string uid_of(const Json& job) {
  return text_at(job, {"metadata", "uid"});
}

}  // namespace

void JobsState::init(caf::stateful_actor<JobsState>* self, ControllerOptions options) {
  self_ = self;
  options_ = std::move(options);
  api_ = std::make_unique<KubernetesApi>(options_.place);
}

void JobsState::look_soon() {
  if (!std::exchange(is_due_, true)) self_->send(self_, LookAgain{});
}

void JobsState::on_objects(const ObjectsSeen& seen) {
  (seen.kind == ObjectKind::kClusters ? clusters_ : jobs_) = seen.objects;
  look_soon();
}

void JobsState::on_mandate(const ActsUntil& mandate) {
  mandate_.extend(mandate.until);
  if (mandate_.holds()) return look_soon();
  // The next holder decides; what this one remembers may be old when it is the holder again.
  keepers_.clear();
  head_seen_.reset();
}

void JobsState::on_head(const HeadSeen& seen, caf::actor head) {
  head_seen_ = seen;
  head_ = std::move(head);
  look_soon();
}

void JobsState::on_answer(const HeadAnswered& answered) {
  const auto keeper = keepers_.find(answered.uid);
  if (keeper != keepers_.end())
    keeper->second.answered(answered.answer, std::chrono::steady_clock::now());
  look_soon();
}

void JobsState::forget_gone(const Objects& jobs) {
  std::set<std::string> uids;
  for (const auto& [name, job] : jobs) uids.insert(uid_of(*job));
  std::erase_if(keepers_, [&](const auto& entry) { return !uids.contains(entry.first); });
}

Surroundings JobsState::surroundings() {
  Surroundings around{.head = head_seen_->facts.get(), .clock = clock_text()};
  const auto cluster = clusters_->find(options_.cluster);
  around.has_cluster = cluster != clusters_->end();
  if (around.has_cluster) {
    const auto groups = groups_of(*cluster->second);
    if (!groups.empty()) around.first_type = groups.front().device_type;
  }
  return around;
}

void JobsState::look() {
  is_due_ = false;
  if (!clusters_ || !jobs_ || !head_seen_) return;
  forget_gone(*jobs_);
  Surroundings around = surroundings();
  Status first;
  for (const auto& [name, job] : *jobs_) {
    if (!mandate_.holds()) return;
    if (cluster_of(*job) != options_.cluster) continue;
    around.now = std::chrono::steady_clock::now();
    around.number = ++requests_;
    const Status done = look_after(job, around);
    if (first.ok()) first = done;
  }
  // The next facts of the head cause the next look.
  trouble_.note(first);
}

Status JobsState::look_after(const std::shared_ptr<const Json>& job, const Surroundings& around) {
  JobKeeper& keeper = keepers_[uid_of(*job)];
  const JobWork work = keeper.decide(*job, around);
  if (work.finalizers) ES_RETURN_IF_ERROR(write_finalizers(*job, *work.finalizers));
  if (work.ask)
    self_->send(head_, AskHead{uid_of(*job), around.number, *work.ask, keeper.id(), job});
  return work.status ? write_status(*job, *work.status, keeper) : Status();
}

Status JobsState::write_finalizers(const Json& job, const Json& patch) {
  const auto done =
      api_->merge(own_path(options_, "elastictrainingjobs/" + kubernetes::name_of(job)), patch);
  // The object has changed meanwhile, or is gone: the next look sees it.
  if (!done && done.error().kind == ErrorKind::kFailure) return done.error();
  return {};
}

Status JobsState::write_status(const Json& job, const Json& status, JobKeeper& keeper) {
  const std::string name = kubernetes::name_of(job);
  const auto written = api_->apply(own_path(options_, "elastictrainingjobs/" + name + "/status"),
                                   {{"apiVersion", kApiVersion},
                                    {"kind", "ElasticTrainingJob"},
                                    {"metadata", {{"name", name}}},
                                    {"status", status}});
  // It was deleted meanwhile.
  if (!written && written.error().kind == ErrorKind::kNotFound) return {};
  if (!written) return written.error();
  look_soon();  // What follows from the status.
  const auto event = keeper.written(job, status, clock_text());
  if (!event) return {};
  const auto made = api_->create(core_path(options_, "events"), *event);
  return made ? Status() : Status(made.error());
}

caf::behavior jobs_actor(caf::stateful_actor<JobsState>* self, ControllerOptions options) {
  self->state.init(self, std::move(options));
  return {
      [=](const ObjectsSeen& seen) { self->state.on_objects(seen); },
      [=](const ActsUntil& mandate) { self->state.on_mandate(mandate); },
      [=](const HeadSeen& seen) {
        self->state.on_head(seen, caf::actor_cast<caf::actor>(self->current_sender()));
      },
      [=](const HeadAnswered& answered) { self->state.on_answer(answered); },
      [=](const LookAgain&) { self->state.look(); },
  };
}

}  // namespace es::actors::kubernetes
