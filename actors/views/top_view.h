#pragma once
// The screens of `esctl top`. Pure functions: what a head says in, lines out.
#include <string>
#include <vector>

#include "actors/views/screen.h"
#include "actors/views/views.h"

namespace es::actors {

struct TopFacts {
  std::string head;  // its endpoint
  std::string time;  // of these facts, as text
  std::vector<JobView> jobs{};
  std::vector<NodeView> nodes{};
  std::string warning{};  // of the head, or why it does not answer; empty: none
};

// The cluster: a line for each node and device type, then the jobs, live ones first. What has no
// room on a screen of this size is counted in the last line of its part.
Screen cluster_screen(const TopFacts& facts, ScreenSize size);

// One job: progress, speed, losses, workers and stages.
Screen job_screen(const JobView& job, const TopFacts& facts, ScreenSize size);

// For example "[#####.....]" with `width` characters between the brackets.
std::string bar_text(double share, int width);

}  // namespace es::actors
