#pragma once
// The devices that the stages of a job want at each version. Pure values.
#include <cstddef>
#include <optional>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"

namespace es::actors::intra_job {

class StageSchedule {
 public:
  // Stage 0 begins at `start`. The last stage lasts until the job ends.
  StageSchedule(std::vector<Stage> stages, Version start);

  bool empty() const { return stages_.empty(); }
  // The functions below REQUIRE: !empty(), stage < number of stages.
  //
  // Returns the stage of the step that begins at this version. At a boundary this is the later
  // stage.
  std::size_t stage_at(Version version) const;
  const DeviceSet& devices(std::size_t stage) const { return stages_[stage].devices; }
  Version begin(std::size_t stage) const { return begins_[stage]; }
  // Returns the version at which the stage ends and all members pause; nullopt for the last stage.
  std::optional<Version> end(std::size_t stage) const;
  // Returns, for each type, the larger count of this stage and the next one, so that the workers of
  // the next stage are warm in time.
  DeviceSet demand(std::size_t stage) const;

 private:
  std::vector<Stage> stages_;
  std::vector<Version> begins_;
};

}  // namespace es::actors::intra_job
