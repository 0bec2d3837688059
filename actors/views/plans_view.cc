#include "actors/views/plans_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

DeviceSet device_set_of(const PlanView& plan) {
  DeviceSet devices;
  for (const PlanPartView& part : plan.parts) devices.add(part.type, part.devices);
  return devices;
}

// For example "2, 1": two ESTs on each device of the first type and one on each of the second type.
std::string ests_text(const PlanView& plan) {
  std::string text;
  for (const PlanPartView& part : plan.parts)
    text += (text.empty() ? "" : ", ") + std::to_string(part.ests_per_device);
  return text;
}

std::string speeds_text(const std::vector<TypeSpeedView>& speeds, std::size_t columns) {
  std::vector<std::vector<std::string>> rows{{"DEVICE TYPE", "LOCAL STEPS/S", ""}};
  for (const TypeSpeedView& s : speeds)
    rows.push_back(
        {s.type.name, fixed(s.steps_per_second, 2), s.measured ? "measured" : "assumed"});
  return table(rows, columns);
}

std::string now_text(const PlansView& view) {
  if (view.placement.empty()) return "The job runs on no devices now.\n";
  std::string text = "The job runs on " + view.placement;
  if (view.pace_seconds > 0)
    text += ", where steps have taken " + fixed(view.pace_seconds * 1e3, 1) + " ms each";
  const bool listed =
      std::any_of(view.plans.begin(), view.plans.end(), [](const PlanView& p) { return p.runs; });
  return text + (listed ? ".\n" : "; that is not one of these plans.\n");
}

std::string left_out_text(const PlansView& view, std::size_t shown) {
  std::string text;
  if (shown < view.plans.size())
    text += "Not shown: " + counted(view.plans.size() - shown, "plan") + "; --top 0 shows all.\n";
  if (!view.complete)
    text += "There are more plans. The list has the best plan for each number of devices.\n";
  return text;
}

}  // namespace

PlansView read_plans(wire::PlanList::Reader reader) {
  PlansView view{.complete = reader.getComplete(),
                 .placement = line_of(reader.getPlacement()),
                 .pace_seconds = reader.getPaceSeconds()};
  for (const auto s : reader.getSpeeds())
    view.speeds.push_back({{line_of(s.getDeviceType())}, s.getStepsPerSecond(), s.getMeasured()});
  const auto is_measured = [&](const PlanPartView& part) {
    return std::any_of(view.speeds.begin(), view.speeds.end(),
                       [&](const TypeSpeedView& s) { return s.type == part.type && s.measured; });
  };
  for (const auto p : reader.getPlans()) {
    PlanView plan{.seconds_per_step = p.getSecondsPerStep(),
                  .throughput = p.getThroughput(),
                  .waste = p.getWaste()};
    for (const auto part : p.getParts())
      plan.parts.push_back(
          {{line_of(part.getDeviceType())}, part.getDevices(), part.getEstsPerDevice()});
    // Both texts are sorted by type, so equal texts are equal sets.
    plan.runs = device_set_of(plan).text() == view.placement;
    plan.measured = std::all_of(plan.parts.begin(), plan.parts.end(), is_measured);
    view.plans.push_back(std::move(plan));
  }
  return view;
}

std::string plans_text(const PlansView& view, std::size_t top, std::size_t columns) {
  std::vector<std::vector<std::string>> rows{{"PLAN", "DEVICES", "ESTS EACH", "ESTIMATED STEP",
                                              "LOCAL STEPS/S", "WASTED/S", "FROM SPEEDS", ""}};
  for (std::size_t i = 0; i < view.plans.size(); ++i) {
    const PlanView& plan = view.plans[i];
    if (top != 0 && i >= top && !plan.runs) continue;
    rows.push_back({std::to_string(i + 1), device_set_of(plan).text(), ests_text(plan),
                    fixed(plan.seconds_per_step * 1e3, 1) + " ms", fixed(plan.throughput, 2),
                    fixed(plan.waste, 2), plan.measured ? "measured" : "assumed",
                    plan.runs ? "runs now" : ""});
  }
  // The heading is a row too.
  return speeds_text(view.speeds, columns) + "\n" + table(rows, columns) +
         wrapped(left_out_text(view, rows.size() - 1) + now_text(view), columns);
}

std::string plans_json(const std::string& job, const PlansView& view) {
  using Json = nlohmann::ordered_json;
  Json json{{"job", job},
            {"placement", view.placement.empty() ? Json() : Json(view.placement)},
            {"pace_seconds", view.pace_seconds > 0 ? Json(view.pace_seconds) : Json()},
            {"complete", view.complete},
            {"speeds", Json::array()},
            {"plans", Json::array()}};
  for (const TypeSpeedView& s : view.speeds)
    json["speeds"].push_back({{"device_type", s.type.name},
                              {"local_steps_per_second", s.steps_per_second},
                              {"measured", s.measured}});
  for (const PlanView& plan : view.plans) {
    Json parts = Json::array();
    for (const PlanPartView& part : plan.parts)
      parts.push_back({{"device_type", part.type.name},
                       {"devices", part.devices},
                       {"ests_per_device", part.ests_per_device}});
    json["plans"].push_back({{"devices", device_set_of(plan).text()},
                             {"parts", std::move(parts)},
                             {"seconds_per_step", plan.seconds_per_step},
                             {"local_steps_per_second", plan.throughput},
                             {"waste", plan.waste},
                             {"measured", plan.measured},
                             {"runs", plan.runs}});
  }
  return json_text(json);
}

}  // namespace es::actors
