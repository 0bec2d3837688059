#include "actors/head/intra_job/core/straggler_watch.h"

#include <algorithm>
#include <cmath>

namespace es::actors::intra_job {
namespace {

constexpr int kUsualReportsMin = 3;
constexpr double kUsualWeight = 0.1;  // weight of a new report in the moving mean
constexpr double kFactorStepMin = 0.25;

// Returns the lower one of two middle values, so that slow devices do not hide each other if half
// of the devices are slow.
std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

}  // namespace

std::optional<StragglerWatch::Report> StragglerWatch::add(const Measurement& measured,
                                                          std::span<const DeviceId> members) {
  follow_members(members);
  Device& device = devices_[measured.device];
  if (device.worker != measured.worker) {  // the first step of a process
    device.worker = measured.worker;
    device.work_seconds = 0;
    device.local_steps = 0;
    return std::nullopt;
  }
  device.work_seconds += measured.seconds * static_cast<double>(measured.local_steps);
  device.local_steps += measured.local_steps;
  if (device.work_seconds < kReportSeconds) return std::nullopt;
  device.last = device.work_seconds / static_cast<double>(device.local_steps);
  device.work_seconds = 0;
  device.local_steps = 0;

  Report report{.seconds = *device.last, .slowness = slowness(measured.device, members)};
  device.slownesses.push_back(report.slowness);
  if (device.slownesses.size() > kSlowReports) device.slownesses.erase(device.slownesses.begin());
  // A report that may be of a slow device must not become the usual one.
  if (!device.usual || *device.last < kSlow * *device.usual) learn_usual(device);
  report.change = judge(device);
  return report;
}

double StragglerWatch::slowness(const DeviceId& id, std::span<const DeviceId> members) const {
  const Device& device = devices_.at(id);
  std::vector<double> of_its_type, relative_to_usual;
  for (const DeviceId& member : members) {
    const auto other = devices_.find(member);
    // The device itself is left out. Otherwise one of two devices would hide its own slowness.
    if (member == id || other == devices_.end() || !other->second.last) continue;
    if (member.type == id.type) of_its_type.push_back(*other->second.last);
    if (other->second.usual_reports >= kUsualReportsMin)
      relative_to_usual.push_back(*other->second.last / *other->second.usual);
  }
  double slowness = 0;
  if (const auto peers = median(std::move(of_its_type))) slowness = *device.last / *peers;
  if (device.usual_reports >= kUsualReportsMin) {
    // The ratio counts as at least 1, so that others which became faster do not make this device
    // slow.
    const double common = std::max(1.0, median(std::move(relative_to_usual)).value_or(1.0));
    slowness = std::max(slowness, *device.last / *device.usual / common);
  }
  return slowness > 0 ? slowness : 1;
}

void StragglerWatch::follow_members(std::span<const DeviceId> members) {
  std::set<DeviceId> now(members.begin(), members.end());
  if (now == members_) return;
  members_ = std::move(now);
  for (auto& [id, device] : devices_) {
    // A named device keeps its usual report. Otherwise the slow speed would be learnt as the usual
    // one.
    if (device.factor > 1) continue;
    device.usual.reset();
    device.usual_reports = 0;
  }
}

void StragglerWatch::learn_usual(Device& device) {
  // The first reports have equal weights, later ones a fixed weight.
  const double weight = std::max(kUsualWeight, 1.0 / ++device.usual_reports);
  const double before = device.usual.value_or(*device.last);
  device.usual = before + weight * (*device.last - before);
}

StragglerWatch::Change StragglerWatch::judge(Device& device) {
  const std::vector<double>& newest = device.slownesses;
  if (newest.size() < kSlowReports) return Change::kNone;
  const double now = *median(newest);
  if (device.factor > 1) {
    if (*std::max_element(newest.begin(), newest.end()) < kUsual) {
      device.factor = 1;
      return Change::kCleared;
    }
    if (std::abs(now / device.factor - 1) > kFactorStepMin) device.factor = std::max(now, kUsual);
    return Change::kNone;
  }
  if (*std::min_element(newest.begin(), newest.end()) < kSlow) return Change::kNone;
  device.factor = now;
  return Change::kNamed;
}

double StragglerWatch::factor(const DeviceId& device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? 1 : found->second.factor;
}

std::optional<double> StragglerWatch::seconds(const DeviceId& device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? std::nullopt : found->second.last;
}

}  // namespace es::actors::intra_job
