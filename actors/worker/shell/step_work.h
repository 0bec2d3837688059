#pragma once
// StepWork: commands that the device half also performs in the middle of a local step.
//
// A local step whose gradients leave early waits until other workers have read some of them. These
// need sums that this worker makes, and it has to hear what was read. So the control half puts such
// commands here, and sends DoStepWork, which is for a device half that computes nothing. Each one
// belongs to the running step of the device half, or to one that is abandoned: the core gives such
// work only when it has parts of the step.
#include <condition_variable>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "actors/worker/shell/device_messages.h"

namespace es::actors {

inline bool is_step_work(const worker::Effect& effect) {
  return std::holds_alternative<worker::ReduceBucket>(effect) ||
         std::holds_alternative<worker::HoldSum>(effect) ||
         std::holds_alternative<worker::PartsRead>(effect);
}

// Thread-safe.
class StepWork {
 public:
  void add(DeviceCommand command) {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    changed_.notify_one();
  }
  // A wait ends although there is no command, because a generation was abandoned.
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  std::vector<DeviceCommand> take() {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    return std::exchange(commands_, {});
  }
  // Waits until there is a command, or wake() was called since the last take().
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_ || !commands_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<DeviceCommand> commands_;
  bool woken_ = false;
};

}  // namespace es::actors
