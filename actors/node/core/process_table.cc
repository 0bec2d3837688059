#include "actors/node/core/process_table.h"

#include <utility>

namespace es::actors {

ProcessTable::Start ProcessTable::start(const JobId& job, Incarnation incarnation) {
  // The head may repeat the request after a lost link. An incarnation names one process, which is
  // not started twice.
  if (processes_.contains(incarnation)) return Start::kKnown;
  if (draining_) return Start::kRefused;
  processes_[incarnation] = {job, 0, false};
  return Start::kNow;
}

ProcessTable::Kill ProcessTable::kill(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end()) return Kill::kUnknown;
  at->second.doomed = true;
  // Its supervisor may not have started it yet. Then started() returns that it is to be killed.
  return at->second.pid == 0 ? Kill::kLater : Kill::kNow;
}

bool ProcessTable::started(Incarnation incarnation, pid_t pid) {
  Process& process = processes_.at(incarnation);
  process.pid = pid;
  return process.doomed;
}

std::optional<JobId> ProcessTable::ended(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end()) return std::nullopt;
  JobId job = std::move(at->second.job);
  processes_.erase(at);
  return job;
}

std::vector<Incarnation> ProcessTable::incarnations() const {
  std::vector<Incarnation> all;
  for (const auto& [incarnation, process] : processes_) all.push_back(incarnation);
  return all;
}

}  // namespace es::actors
