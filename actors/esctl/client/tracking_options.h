#pragma once
// The options that commands share which write to trackers.
#include <CLI/CLI.hpp>

#include "actors/views/trackers/job_tracking.h"

namespace es::actors::esctl {

void add_tracking_options(CLI::App& command, TrackingOptions& options);

}  // namespace es::actors::esctl
