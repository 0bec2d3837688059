#include "actors/head/intra_job/core/stage_schedule.h"

#include <utility>

#include "scheduler/model/device_sets.h"

namespace es::actors::intra_job {

StageSchedule::StageSchedule(std::vector<Stage> stages, Version start)
    : stages_(std::move(stages)) {
  for (const Stage& stage : stages_) {
    begins_.push_back(start);
    start += stage.steps;
  }
}

std::size_t StageSchedule::stage_at(Version version) const {
  std::size_t stage = stages_.size() - 1;
  while (stage > 0 && version < begins_[stage]) --stage;
  return stage;
}

std::optional<Version> StageSchedule::end(std::size_t stage) const {
  if (stage + 1 == stages_.size()) return std::nullopt;
  return begins_[stage + 1];
}

DeviceSet StageSchedule::demand(std::size_t stage) const {
  const DeviceSet& now = stages_[stage].devices;
  if (stage + 1 == stages_.size()) return now;
  return scheduler::sum(now, scheduler::beyond(stages_[stage + 1].devices, now));
}

}  // namespace es::actors::intra_job
