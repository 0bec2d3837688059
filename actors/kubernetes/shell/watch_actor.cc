#include "actors/kubernetes/shell/watch_actor.h"

namespace es::actors::kubernetes {
namespace {

// The pause after an error.
constexpr std::chrono::seconds kPause{1};
// Less than the 180 s after which a silent watch is given up.
constexpr const char* kWatchSeconds = "150";
constexpr int kGone = 410, kMultipleChoices = 300;

}  // namespace

void WatchState::init(caf::stateful_actor<WatchState>* self, WatchOptions options,
                      std::vector<caf::actor> listeners) {
  self_ = self;
  options_ = std::move(options);
  if (!options_.selector.empty())
    options_.selector = "&labelSelector=" + percent_encoded(options_.selector);
  listeners_ = std::move(listeners);
  api_ = std::make_unique<KubernetesApi>(options_.place);
  self_->send(self_, LookAgain{});
}

void WatchState::look() {
  Status status = listed_ ? Status() : list();
  if (status.ok()) status = watch();
  if (!status.ok() && !failing_)
    log::warning("Kubernetes is asked again: " + status.error().message);
  failing_ = !status.ok();
  if (failing_)
    self_->delayed_send(self_, kPause, LookAgain{});
  else
    self_->send(self_, LookAgain{});
}

void WatchState::tell() {
  const auto objects = std::make_shared<const Objects>(cache_.objects());
  for (const caf::actor& listener : listeners_)
    self_->send(listener, ObjectsSeen{options_.kind, objects});
}

Status WatchState::list() {
  const auto all = api_->get(options_.path + "?limit=0" + options_.selector);
  if (!all) return all.error();
  cache_.take_list(*all);
  listed_ = true;
  log::info("all objects of " + options_.path + " were listed");
  tell();
  return {};
}

Status WatchState::watch() {
  bool expired = false;
  const auto status = api_->watch(
      options_.path + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=" + kWatchSeconds +
          "&resourceVersion=" + cache_.version() + options_.selector,
      [&](std::string_view line) {
        const Watched seen = cache_.take_event(line);
        expired = expired || seen == Watched::kExpired;
        if (seen == Watched::kChange) tell();
      });
  if (expired || (status && *status == kGone)) {
    listed_ = false;
    return {};
  }
  if (!status) return status.error();
  if (*status < kMultipleChoices) return {};
  return failure("the watch of " + options_.path + " was answered with " + std::to_string(*status));
}

caf::behavior watch_actor(caf::stateful_actor<WatchState>* self, WatchOptions options,
                          std::vector<caf::actor> listeners) {
  self->state.init(self, std::move(options), std::move(listeners));
  return {[=](const LookAgain&) { self->state.look(); }};
}

}  // namespace es::actors::kubernetes
