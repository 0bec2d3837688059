#include "actors/esctl/client/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/check.h"

namespace es::actors::esctl {

// The counter of the eventfd is the number of items.
Inbox::Inbox() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  ES_CHECK_MSG(fd_ >= 0, "no file descriptor is left");
}

Inbox::~Inbox() {
  ::close(fd_);
}

void Inbox::post(InboxItem item) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  // The item is in the queue before the counter grows, so a reader that has taken one count always
  // finds an item.
  ES_CHECK(::eventfd_write(fd_, 1) == 0);
}

std::optional<InboxItem> Inbox::take() {
  eventfd_t one = 0;
  if (::eventfd_read(fd_, &one) != 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  ES_CHECK(!items_.empty());
  std::optional<InboxItem> item(std::move(items_.front()));
  items_.pop_front();
  return item;
}

}  // namespace es::actors::esctl
