#include "actors/base/gateway/core/outbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "proto/base/check.h"

namespace es::actors {

Outbox::Outbox() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  ES_CHECK(fd_ >= 0);
}

Outbox::~Outbox() {
  ::close(fd_);
}

void Outbox::post(TransportCommand command) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = commands_.empty();
    commands_.push_back(std::move(command));
  }
  // If the queue was not empty, the event is already set, or the thread of the transport is about
  // to take all commands. One system call for each command is thus avoided.
  if (!was_empty) return;
  const std::uint64_t one = 1;
  ES_CHECK(::write(fd_, &one, sizeof one) == sizeof one);
}

std::deque<TransportCommand> Outbox::take_all() {
  std::uint64_t count = 0;
  // The event is cleared before the commands are taken. A command that is posted after the read
  // sets the event again; one that was posted before is taken now. A failed read only means that no
  // command was posted.
  [[maybe_unused]] const ssize_t read = ::read(fd_, &count, sizeof count);
  std::deque<TransportCommand> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(commands_);
  return taken;
}

}  // namespace es::actors
