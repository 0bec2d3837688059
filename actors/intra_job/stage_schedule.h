#pragma once
// Which devices the job's stages want at which version. Pure values.
#include <cstddef>
#include <optional>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"

namespace es::actors::intra_job {

class StageSchedule {
 public:
  // Stage 0 begins at `start`. The last stage lasts as long as the job.
  StageSchedule(std::vector<Stage> stages, Version start);

  bool empty() const { return stages_.empty(); }
  // The rest REQUIRES: !empty(), stage < number of stages.
  // The stage that makes the step from this version on; a boundary belongs to the later stage.
  std::size_t stage_at(Version version) const;
  const DeviceSet& devices(std::size_t stage) const { return stages_[stage].devices; }
  Version begin(std::size_t stage) const { return begins_[stage]; }
  // Where the stage ends and all pause; none for the last stage.
  std::optional<Version> end(std::size_t stage) const;
  // By type the larger count of this stage and the next, whose workers are to be warm in time.
  DeviceSet demand(std::size_t stage) const;

 private:
  std::vector<Stage> stages_;
  std::vector<Version> begins_;
};

}  // namespace es::actors::intra_job
