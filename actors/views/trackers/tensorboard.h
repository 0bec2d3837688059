#pragma once
// TensorBoard: event files, one directory for each job.
#include <filesystem>
#include <memory>

#include "actors/views/trackers/tracker.h"

namespace es::actors {

// The file is DIR/JOB/events.out.tfevents.SECONDS.esctl, where SECONDS is the time at which the job
// was submitted. An older file of that name is replaced, because all of its points are written
// again. Each add() is visible to readers when it returns.
// Errors: the directory or the file cannot be written.
std::unique_ptr<Tracker> tensorboard_tracker(std::filesystem::path directory);

}  // namespace es::actors
