#pragma once
// Inbox: passes items from the transport's thread to the command's thread. Its file descriptor can
// be polled together with others (signals).
//
// post() may be called on any thread; all other functions belong to one thread.
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/base/gateway/shell/zmq_transport.h"
#include "proto/frame.h"

namespace es::actors::esctl {

struct InboxItem {
  enum class Kind { kFrame, kHeadUp, kHeadDown, kLinkNews };
  Kind kind = Kind::kFrame;
  std::shared_ptr<const Frame> frame = nullptr;  // for kFrame
  LinkNews news = {};                            // for kLinkNews
};

class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void post(InboxItem item);
  // Returns the oldest item, if there is one.
  std::optional<InboxItem> take();
  // Readable while there is an item.
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::mutex mutex_;
  std::deque<InboxItem> items_;  // guarded by mutex_
};

}  // namespace es::actors::esctl
