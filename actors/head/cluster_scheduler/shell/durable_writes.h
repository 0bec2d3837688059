#pragma once
// DurableWrites: a state directory that cannot be written for a while. It says whether anything new
// may be accepted, and keeps the writes about facts that cannot be refused until they succeed.
//
// Ownership: it uses the store and owns the waiting writes, which may refer to other parts of the
// same actor. Used by one actor.
#include <deque>
#include <functional>
#include <string>

#include "actors/head/head_store.h"

namespace es::actors {

class DurableWrites {
 public:
  // `wake` has try_again() called a little later. It is called only while no such call is to come.
  DurableWrites(HeadStore& store, std::function<void()> wake)
      : store_(store), wake_(std::move(wake)) {}

  // A write of this actor or of a job has failed and waits.
  void failed(const std::string& reason);
  // Returns true if everything is written again. Otherwise it will be called once more.
  bool try_again();

  // Ok if something new may be accepted. Error (refused): nothing can be written.
  Status check_accepting();
  // Passes a failed write on: the request is refused, and writing is tried again for everything
  // that waits. Returns its argument.
  Status checked(const Status& written);
  // For facts that cannot be refused: writes now, or as soon as it is possible. Later writes queue
  // behind earlier ones.
  void when_possible(std::function<Status()> write);
  // Why writes wait; empty: none do.
  std::string warning() const;

 private:
  HeadStore& store_;
  const std::function<void()> wake_;
  // Set exactly while a call of try_again() is to come.
  std::string warning_;
  std::deque<std::function<Status()>> waiting_;  // in order
};

}  // namespace es::actors
