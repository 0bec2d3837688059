#include "actors/tracing/core/recorder.h"

#include <utility>

namespace es::actors::tracing {

void Recorder::start(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  room_ = limit;
  dropped_ = 0;
  on_.store(true, std::memory_order_relaxed);
}

void Recorder::stop() {
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_relaxed);
}

void Recorder::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (!on()) return;
  if (room_ == 0) {
    ++dropped_;
    return;
  }
  --room_;
  spans_.push_back(span);
}

Recorder::Taken Recorder::take() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(spans_, {}), dropped_};
}

std::size_t Recorder::waiting() const {
  const std::lock_guard lock(mutex_);
  return spans_.size();
}

}  // namespace es::actors::tracing
