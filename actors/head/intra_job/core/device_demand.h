#pragma once
// DeviceDemand decides which devices a job asks the cluster scheduler for: those of its stage,
// those that its user chose by `scale`, or any. Below D2 it binds the job to one device type.
//
// Stages: the demand of a stage includes the devices of the next one, so that their workers are
// warm when the stage ends.
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/restart_point.h"

namespace es::actors::intra_job {

// If the cluster refuses devices that the job had before, the job asks again after this time.
inline constexpr Instant kDemandAgainAfter = std::chrono::seconds(1);

class DeviceDemand {
 public:
  // `was_met`: the demand was met once. This is assumed for a job that an earlier head admitted.
  DeviceDemand(JobContext& context, const RestartPoint& restart, bool was_met)
      : context_(context), restart_(restart), was_met_(was_met) {}

  std::size_t stage() const { return stage_; }
  // Enters the stage of the step that begins at `version`, if the job has stages.
  void enter_stage_of(Version version);

  // The devices of the placement from which the step at `version` begins.
  Wanted at(Version version) const;
  // What the job has to be given before that step: those of at(), and of the next stage.
  Wanted needed_at(Version version) const;
  // The devices on which the job wants a warm worker, members included; none when the job is over.
  Wanted staff() const;
  // Sends the demand if it has changed, or has to be repeated.
  void update();
  // The time at which a refused demand is repeated; until then the earlier demand is in force.
  const std::optional<Instant>& repeated_at() const { return again_at_; }

  // Commands and answers.
  void scale(const ScaleCommand& command);
  bool has_open_scale() const { return scale_request_.has_value(); }
  // REQUIRES: has_open_scale().
  void answer_scale(Status status);
  // The cluster scheduler has given devices.
  void met();
  // The cluster scheduler has refused the demand. Returns the reason for which the job must fail;
  // empty: none.
  std::string refused_because(const std::string& reason);

  // Below D2 the kernels of a device type decide the bits. A job that continued on another type
  // would end with other bits than one that stayed, and could not load its own saved states. So it
  // is bound to the type of its first members, or of the devices that its user asked for. Returns
  // false if these workers are on devices of another type. A job with stages is not bound, because
  // its user chose the types.
  bool bind_to_type(const std::set<Incarnation>& workers);
  // The workers that such a job may use together.
  std::set<Incarnation> of_one_type(const std::set<Incarnation>& workers) const;
  // Gives devices of another type up. The cluster scheduler may have granted them before it learned
  // that the job is bound to a type.
  void give_up_other_types(const Allocation& allocation);

 private:
  Status check(const ScaleCommand& command) const;
  Status check_types(const Wanted& wanted) const;

  JobContext& context_;
  const RestartPoint& restart_;
  std::size_t stage_ = 0;            // stage of the present placement
  std::optional<DeviceSet> sent_{};  // devices of the last Demand; nullopt: lifted or not sent
  std::optional<Instant> again_at_{};
  std::optional<std::uint64_t> scale_request_{};  // scale request that is not answered yet
  std::optional<DeviceSet> pinned_before_scale_{};
  bool was_met_;
};

}  // namespace es::actors::intra_job
