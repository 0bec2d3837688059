#include "actors/kubernetes/shell/lease_actor.h"

namespace es::actors::kubernetes {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void LeaseState::init(caf::stateful_actor<LeaseState>* self, ControllerOptions options,
                      std::vector<caf::actor> listeners) {
  self_ = self;
  options_ = std::move(options);
  listeners_ = std::move(listeners);
  api_ = std::make_unique<KubernetesApi>(options_.place);
  lease_ = std::make_unique<LeaseHolder>(options_.identity);
  name_ = options_.cluster + "-controller";
  self_->send(self_, LookAgain{});
}

void LeaseState::look() {
  self_->delayed_send(self_, kLookEvery, LookAgain{});
  if (!lease_->is_fresh(Clock::now())) trouble_.note(keep());
  tell();
}

Status LeaseState::keep() {
  const auto now = Clock::now();
  const std::string leases = leases_path(options_), path = leases + "/" + name_;
  const auto found = api_->get(path);
  if (!found && found.error().kind != ErrorKind::kNotFound) return found.error();
  auto lease =
      lease_->decide(found ? std::optional<Json>(*found) : std::nullopt, now, micro_clock_text());
  if (!lease) return {};
  (*lease)["apiVersion"] = "coordination.k8s.io/v1";
  (*lease)["kind"] = "Lease";
  (*lease)["metadata"]["name"] = name_;
  const auto written = found ? api_->replace(path, *lease) : api_->create(leases, *lease);
  if (written) {
    lease_->written(now);
    return {};
  }
  if (written.error().kind != ErrorKind::kRefused) return written.error();
  lease_->lost();
  return {};
}

void LeaseState::tell() {
  const auto until = lease_->holds_until();
  const bool acts = Clock::now() < until;
  if (acts != acts_)
    log::info(acts ? "this controller acts now" : "this controller does not act now");
  acts_ = acts;
  if (until == told_) return;
  told_ = until;
  for (const caf::actor& listener : listeners_) self_->send(listener, ActsUntil{until});
}

void LeaseState::give_back() {
  if (Clock::now() >= lease_->holds_until()) return;
  const std::string path = leases_path(options_) + "/" + name_;
  auto lease = api_->get(path);
  if (!lease || text_at(*lease, {"spec", "holderIdentity"}) != options_.identity) return;
  (*lease)["spec"]["holderIdentity"] = "";
  if (const auto given = api_->replace(path, *lease); !given) trouble_.note(given.error());
}

caf::behavior lease_actor(caf::stateful_actor<LeaseState>* self, ControllerOptions options,
                          std::vector<caf::actor> listeners) {
  self->state.init(self, std::move(options), std::move(listeners));
  self->set_exit_handler([=](caf::exit_msg& exit) {
    self->state.give_back();
    self->quit(std::move(exit.reason));
  });
  return {[=](const LookAgain&) { self->state.look(); }};
}

}  // namespace es::actors::kubernetes
