#include "actors/head/cluster_scheduler/shell/durable_writes.h"

#include "actors/base/log/log.h"

namespace es::actors {

void DurableWrites::failed(const std::string& reason) {
  const bool tries = !warning_.empty();
  if (!tries) log::warning(reason);
  warning_ = reason;
  if (!tries) wake_();
}

bool DurableWrites::try_again() {
  Status status = store_.recover();
  // A write that fails stays at the front, so the order of the writes is kept.
  while (status.ok() && !waiting_.empty()) {
    status = waiting_.front()();
    if (status.ok()) waiting_.pop_front();
  }
  if (!status.ok()) {
    warning_ = status.error().message;
    wake_();
    return false;
  }
  log::warning("the state directory can be written again");
  warning_.clear();
  return true;
}

Status DurableWrites::check_accepting() {
  if (!warning_.empty()) return refused(warning_);
  return checked(store_.check_writable());
}

Status DurableWrites::checked(const Status& written) {
  if (!written.ok()) failed(written.error().message);
  return written;
}

void DurableWrites::when_possible(std::function<Status()> write) {
  if (waiting_.empty() && checked(write()).ok()) return;
  waiting_.push_back(std::move(write));
}

std::string DurableWrites::warning() const {
  const auto trouble = store_.trouble();
  return trouble ? trouble->message : warning_;
}

}  // namespace es::actors
