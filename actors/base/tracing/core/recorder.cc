#include "actors/base/tracing/core/recorder.h"

#include <algorithm>
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

void Recorder::add(std::span<const Span> spans) {
  const std::lock_guard lock(mutex_);
  if (!on()) return;
  const std::size_t kept = std::min(spans.size(), room_);
  room_ -= kept;
  dropped_ += spans.size() - kept;
  spans_.insert(spans_.end(), spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(kept));
}

void Recorder::take(Taken& taken) {
  const std::lock_guard lock(mutex_);
  taken.spans.clear();
  std::swap(taken.spans, spans_);
  taken.dropped = dropped_;
  if (!on()) spans_ = {};
}

Recorder::Taken Recorder::take() {
  Taken taken;
  take(taken);
  return taken;
}

std::size_t Recorder::waiting() const {
  const std::lock_guard lock(mutex_);
  return spans_.size();
}

}  // namespace es::actors::tracing
