#include "actors/head/intra_job/shell/worker_reports.h"

#include <algorithm>
#include <cmath>

namespace es::actors {
namespace {

bool is_measurement(wire::WorkerStats::Reader r) {
  const auto fits = [](double value) { return std::isfinite(value) && value >= 0; };
  for (const double seconds : r.getEstSeconds())
    if (!fits(seconds)) return false;
  return fits(r.getLocalStepSeconds()) && fits(r.getPeakRssMib()) &&
         fits(r.getContextSwitchSeconds()) && fits(r.getDataWaitSeconds());
}

}  // namespace

Status WorkerReports::add(Incarnation incarnation, wire::WorkerStats::Reader r) {
  if (!is_measurement(r))
    return usage_error("its times are ignored: allowed are finite numbers from 0");
  Worker& worker = workers_[incarnation];
  worker.pid = r.getPid();
  worker.est_seconds.clear();
  for (const double seconds : r.getEstSeconds()) {
    worker.est_seconds.push_back(seconds);
    compute_seconds_ += seconds;
  }
  worker.peak_rss_mib = r.getPeakRssMib();
  worker.sent_bytes += r.getMessageBytes() + r.getSharedMemoryBytes() + r.getChannelBytes();
  peak_rss_mib_ = std::max(peak_rss_mib_, r.getPeakRssMib());
  switch_seconds_ += r.getContextSwitchSeconds();
  wait_seconds_ += r.getDataWaitSeconds();
  message_bytes_ += r.getMessageBytes();
  shared_memory_bytes_ += r.getSharedMemoryBytes();
  channel_bytes_ += r.getChannelBytes();
  return {};
}

void WorkerReports::forget(Incarnation worker) {
  workers_.erase(worker);
}

void WorkerReports::put_into(JobView& view) const {
  view.peak_rss_mib = peak_rss_mib_;
  if (const double all = compute_seconds_ + switch_seconds_ + wait_seconds_; all > 0) {
    view.context_switch_share = switch_seconds_ / all;
    view.data_wait_share = wait_seconds_ / all;
  }
  view.message_bytes = message_bytes_;
  view.shared_memory_bytes = shared_memory_bytes_;
  view.channel_bytes = channel_bytes_;
}

void WorkerReports::put_into(WorkerView& view) const {
  const auto at = workers_.find({view.incarnation});
  if (at == workers_.end()) return;
  view.pid = at->second.pid;
  view.est_seconds = at->second.est_seconds;
  view.peak_rss_mib = at->second.peak_rss_mib;
  view.sent_bytes = at->second.sent_bytes;
}

}  // namespace es::actors
