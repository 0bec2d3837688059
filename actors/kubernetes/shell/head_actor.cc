#include "actors/kubernetes/shell/head_actor.h"

#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/job_text.h"
#include "actors/kubernetes/core/pods.h"
#include "actors/kubernetes/shell/cluster_keys.h"

namespace es::actors::kubernetes {
void HeadState::init(caf::stateful_actor<HeadState>* self, ControllerOptions options,
                     ConnectHead connect, std::vector<caf::actor> listeners) {
  self_ = self;
  options_ = std::move(options);
  connect_ = std::move(connect);
  listeners_ = std::move(listeners);
  api_ = std::make_unique<KubernetesApi>(options_.place);
  self_->send(self_, LookAgain{});
}

void HeadState::on_objects(const ObjectsSeen& seen) {
  (seen.kind == ObjectKind::kClusters ? clusters_ : pods_) = seen.objects;
}

void HeadState::on_mandate(const ActsUntil& mandate) {
  mandate_.extend(mandate.until);
  // The next holder decides.
  if (!mandate_.holds()) drop(failure("this controller does not act now"));
}

const Json* HeadState::cluster() const {
  if (!clusters_) return nullptr;
  const auto found = clusters_->find(options_.cluster);
  if (found == clusters_->end() || is_being_deleted(*found->second)) return nullptr;
  return found->second.get();
}

bool HeadState::is_head_ready() const {
  return pods_ && std::any_of(pods_->begin(), pods_->end(), [](const auto& pod) {
           return component_of(*pod.second) == "head" && is_ready(*pod.second) &&
                  !is_being_deleted(*pod.second);
         });
}

Status HeadState::connect() {
  const auto secret = api_->get(core_path(options_, "secrets/" + keys_name(options_.cluster)));
  if (!secret) return secret.error();
  const auto keys = client_keys(value_at(*secret, {"data"}, Json::object()));
  if (!keys) return keys.error();
  auto link = connect_(head_endpoint(*cluster()), *keys);
  if (!link) return link.error();
  link_ = *std::move(link);
  return {};
}

Result<HeadFacts> HeadState::ask_head() {
  if (cluster() == nullptr) return failure("there is no cluster " + options_.cluster);
  if (!is_head_ready()) return failure("the pod " + options_.cluster + "-head-0 is not ready");
  if (!link_) ES_RETURN_IF_ERROR(connect());
  return link_->look();
}

void HeadState::look() {
  if (!mandate_.holds() || !clusters_ || !pods_) return;
  auto facts = ask_head();
  HeadSeen seen{nullptr, facts ? std::string() : facts.error().message};
  if (facts) {
    facts->number = ++look_;
    seen.facts = std::make_shared<const HeadFacts>(*std::move(facts));
  }
  for (const caf::actor& listener : listeners_) self_->send(listener, seen);
  if (seen.facts)
    collect_answers();
  else
    drop(failure(seen.trouble));
}

void HeadState::answer(const Open& open, std::string job, Status status) {
  self_->send(open.from, HeadAnswered{open.uid,
                                      {.number = open.number,
                                       .look = look_,
                                       .job = std::move(job),
                                       .status = std::move(status)}});
}

void HeadState::collect_answers() {
  std::erase_if(open_, [this](const auto& entry) {
    auto status = link_->answer_to(entry.first);
    if (status) answer(entry.second, {}, *std::move(status));
    return status.has_value();
  });
}

void HeadState::drop(const Error& why) {
  for (const auto& [request, open] : std::exchange(open_, {})) answer(open, {}, why);
  link_.reset();
}

void HeadState::on_ask(const AskHead& ask, const caf::actor& from) {
  const Open open{ask.uid, ask.number, from};
  if (!mandate_.holds() || !link_) return answer(open, {}, failure("no head answers"));
  if (ask.order.step != JobStep::kSubmit && ask.order.step != JobStep::kFind) {
    open_.emplace(link_->ask(ask.job, ask.order), open);
    return;
  }
  // The id of the request is that of the object, so several controllers make a job once.
  Result<std::string> job = std::string();
  if (ask.order.step == JobStep::kFind) {
    job = link_->made_by(ask.uid);
  } else {
    const auto spec = job_spec_of(*ask.object);
    job = spec ? link_->submit(*spec, ask.uid) : Result<std::string>(spec.error());
  }
  answer(open, job ? *job : std::string(), job ? Status() : Status(job.error()));
  if (!job && job.error().kind == ErrorKind::kFailure) drop(job.error());
}

caf::behavior head_actor(caf::stateful_actor<HeadState>* self, ControllerOptions options,
                         ConnectHead connect, std::vector<caf::actor> listeners) {
  self->state.init(self, std::move(options), std::move(connect), std::move(listeners));
  return {
      [=](const ObjectsSeen& seen) { self->state.on_objects(seen); },
      [=](const ActsUntil& mandate) { self->state.on_mandate(mandate); },
      [=](const AskHead& ask) {
        self->state.on_ask(ask, caf::actor_cast<caf::actor>(self->current_sender()));
      },
      [=](const LookAgain&) {
        self->state.look();
        self->delayed_send(self, kLookEvery, LookAgain{});
      },
  };
}

}  // namespace es::actors::kubernetes
