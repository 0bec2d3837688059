#pragma once
// A job's plans as plain values, and the output of `plans`. The fields have the meaning that
// PlanList in proto/schema/client.capnp describes.
#include <cstddef>
#include <string>
#include <vector>

#include "actors/views/table.h"
#include "proto/base/device.h"
#include "proto/messages.h"

namespace es::actors {

struct PlanPartView {
  DeviceType type;
  std::uint32_t devices = 0;
  std::uint32_t ests_per_device = 0;
};

struct PlanView {
  std::vector<PlanPartView> parts;
  double seconds_per_step = 0;
  double throughput = 0;
  double waste = 0;
  bool runs = false;      // the job runs on these devices now
  bool measured = false;  // the estimate is from measured speeds of all its types
};

struct TypeSpeedView {
  DeviceType type;
  double steps_per_second = 0;
  bool measured = false;
};

struct PlansView {
  std::vector<PlanView> plans;
  bool complete = true;
  std::vector<TypeSpeedView> speeds;
  std::string placement;
  double pace_seconds = 0;
};

// Throws kj::Exception on malformed content, so call it inside Msg::decode.
PlansView read_plans(wire::PlanList::Reader reader);

// The speeds, and a table of the first `top` plans (0 means all). The plan that runs is always
// included. `columns` is the width of the terminal.
std::string plans_text(const PlansView& view, std::size_t top, std::size_t columns = kAnyColumns);
// All plans.
std::string plans_json(const std::string& job, const PlansView& view);

}  // namespace es::actors
