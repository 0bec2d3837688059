#include "actors/kubernetes/shell/object_watch.h"

#include <chrono>

#include "actors/base/log/log.h"

namespace es::actors::kubernetes {
namespace {

// The pause after an error.
constexpr std::chrono::seconds kPause{1};
// Less than the 180 s after which a silent watch is given up.
constexpr const char* kWatchSeconds = "150";

}  // namespace

ObjectWatch::ObjectWatch(InCluster place, std::string path, std::string selector,
                         std::function<void()> changed)
    : path_(std::move(path)),
      selector_(selector.empty() ? "" : "&labelSelector=" + percent_encoded(selector)),
      changed_(std::move(changed)),
      api_(std::move(place)),
      thread_([this] { run(); }) {}

ObjectWatch::~ObjectWatch() {
  stop_ = true;
  thread_.join();
}

std::optional<std::map<std::string, Json>> ObjectWatch::objects() const {
  const std::lock_guard lock(mutex_);
  if (cache_.version().empty()) return {};
  return cache_.objects();
}

void ObjectWatch::run() {
  bool listed = false, failing = false;
  while (!stop_) {
    Status status = listed ? Status() : list();
    if (status.ok()) {
      listed = true;
      const auto end = watch();
      if (!end)
        status = end.error();
      else if (*end == 410)
        listed = false;
      else if (*end >= 300)
        status = failure("the watch of " + path_ + " was answered with " + std::to_string(*end));
    }
    if (!status.ok() && !failing && !stop_)
      log::warning("Kubernetes is asked again: " + status.error().message);
    failing = !status.ok();
    if (failing) pause();
  }
}

void ObjectWatch::pause() {
  for (int part = 0; part < 10 && !stop_; ++part) std::this_thread::sleep_for(kPause / 10);
}

Status ObjectWatch::list() {
  const auto all = api_.get(path_ + "?limit=0" + selector_);
  if (!all) return all.error();
  {
    const std::lock_guard lock(mutex_);
    cache_.take_list(*all);
  }
  ++lists_;
  log::info("all objects of " + path_ + " were listed");
  changed_();
  return {};
}

// 410: everything has to be listed again.
Result<int> ObjectWatch::watch() {
  std::string version;
  {
    const std::lock_guard lock(mutex_);
    version = cache_.version();
  }
  bool expired = false;
  const auto status =
      api_.watch(path_ + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=" + kWatchSeconds +
                     "&resourceVersion=" + version + selector_,
                 stop_, [&](std::string_view line) {
                   Watched seen{};
                   {
                     const std::lock_guard lock(mutex_);
                     seen = cache_.take_event(line);
                   }
                   expired = expired || seen == Watched::kExpired;
                   if (seen == Watched::kChange) changed_();
                 });
  return expired ? Result<int>(410) : status;
}

}  // namespace es::actors::kubernetes
