#pragma once
// JobSpeeds knows how fast the local steps of a job are: the capability C_i of each device type,
// and the devices that are slower than others of their type; and what the job loses by
// communication (scheduler/model/sync.h). It is the only owner of these values. The companion
// contributes those that the job has not measured.
//
// Pure: no clock, no I/O, not thread-safe.
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/base/protocol/core/job_plans.h"
#include "actors/head/intra_job/core/straggler_watch.h"
#include "proto/base/job_spec.h"
#include "scheduler/model/capability_watch.h"
#include "scheduler/model/model.h"
#include "scheduler/model/sync_watch.h"
#include "scheduler/plans/placement.h"

namespace es::actors::intra_job {

class JobSpeeds {
 public:
  // At D0 the bits depend on which device has which ranks, so the speeds of single devices are
  // ignored (device_capability).
  explicit JobSpeeds(DeterminismLevel level) : level_(level) {}

  // From the companion: what similar jobs have measured, or assumed values. They replace each
  // other, but not what this job has measured.
  void learn(const std::vector<protocol::Capability>& capabilities);
  // Adds the measurement of one worker. Returns a report if the measurement completes one;
  // `members` are the devices of the placement.
  std::optional<StragglerWatch::Report> add(const StragglerWatch::Measurement& measured,
                                            std::span<const DeviceId> members);
  // A report of a device that is not slow counts for C_i of its type. Returns the new C_i if it
  // changes. REQUIRES: report.seconds > 0.
  std::optional<double> update_type(const DeviceType& type, const StragglerWatch::Report& report);
  // The devices of the job have changed, so reports on the devices before do not count any more.
  void devices_changed() {
    watch_.restart();
    sync_watch_.restart();
  }

  // From the companion. A point that was measured before is not replaced.
  void learn_sync(const std::vector<scheduler::SyncPoint>& points);
  // A block of steps took `step_seconds` each, on these devices with these ranks. Returns the new
  // point of communication if it changes one. Nothing is learned before every device has reported.
  std::optional<scheduler::SyncPoint> add_step(double step_seconds,
                                               std::span<const DeviceId> devices,
                                               std::span<const RankRange> ranks);
  // What the job is known to lose by communication, by itself or by earlier similar jobs.
  const scheduler::SyncCurve& sync() const { return sync_; }
  // The points that this job has measured, ascending by devices.
  std::vector<scheduler::SyncPoint> measured_sync() const;

  // C_i of all known types, in local steps per second.
  const scheduler::Capabilities& capabilities() const { return capabilities_; }
  // By this job or by a similar one.
  bool is_measured(const DeviceType& type) const { return measured_.contains(type); }
  // All known types, ascending by type.
  std::vector<protocol::Capability> list() const;
  // Those that this job has measured.
  std::vector<protocol::Capability> list_own() const;

  // Local steps per second of one device: C_i of its type (1 if it is not known), less if the
  // device is slow.
  double device_capability(const DeviceId& device) const;
  // What crossings between these devices cost, as the newest measured communication of this job
  // tells: all of it counts for the sums that crossed. Nothing is known before, and at D0.
  scheduler::WireCost wire(std::span<const DeviceId> devices) const;
  // One range of virtual ranks for each device, as scheduler::assign_ranks (placement.h) divides
  // them among these devices. REQUIRES: 1 <= devices <= max_p.
  std::vector<RankRange> assign_ranks(std::uint32_t max_p, std::span<const DeviceId> devices) const;
  // Seconds of a local step in the newest report of the device; nullopt before the first one.
  std::optional<double> local_step_seconds(const DeviceId& device) const {
    return stragglers_.seconds(device);
  }
  // How many times slower the device is than it should be; 1 unless it is named as slow.
  double slowness(const DeviceId& device) const { return stragglers_.factor(device); }

 private:
  DeterminismLevel level_;
  scheduler::Capabilities capabilities_;
  std::set<DeviceType> measured_;  // types with a measured C_i; the others are assumed
  std::set<DeviceType> own_;       // types of which this job has a report
  scheduler::CapabilityWatch watch_;
  scheduler::SyncCurve sync_;
  std::set<std::uint32_t> sync_measured_;  // numbers of devices
  scheduler::SyncWatch sync_watch_;
  double seconds_per_crossing_ = 0;
  StragglerWatch stragglers_;
};

}  // namespace es::actors::intra_job
