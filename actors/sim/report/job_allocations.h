#pragma once
// What each job had over time, and why it waited: a table and a chart. Pure.
#include <cstddef>
#include <string>

#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

// Why a job waited in this span, each reason with its seconds, the longest first; "" if it did not
// wait.
std::string reasons_text(const JobSpan& span, const std::vector<std::string>& reasons);

// A table for other programs: one line for each change of a job's devices or state, by time.
std::string job_allocations_csv(const Workload& workload, const SimulationResult& result);

// The most jobs that a chart shows; more could not be read.
inline constexpr std::size_t kChartJobsMax = 200;

// Draws a row for each job, by submission, with its states over time: an SVG text. Of more than
// kChartJobsMax jobs those that waited longest are drawn, and the title says so.
std::string job_chart(const Workload& workload, const SimulationResult& result);

}  // namespace es::actors::simulator
