#include "gpu/engine/captured_updates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/graph/update_code.h"
#include "gpu/machine_code/tile_code.h"
#include "gpu/optim/replica.h"
#include "gpu/params/pytorch_layout.h"
#include "proto/base/number_text.h"

namespace es::gpu {
namespace {

constexpr std::size_t kArraysMax = kMomentsMax - 1;  // one may be the average

std::int64_t padded(std::int64_t floats) {
  return (floats + kParamAlignmentFloats - 1) / kParamAlignmentFloats * kParamAlignmentFloats;
}

// States that are as large as the parameter have an array each. The others follow each other in
// further arrays, as long as the place of the parameter has room.
std::optional<std::vector<StatePlace>> places_of(const ParameterUpdate& update) {
  std::vector<StatePlace> places(update.states.size());
  std::size_t array = 0;
  for (std::size_t s = 0; s < places.size(); ++s)
    if (update.states[s].count == update.count) places[s] = {array++, 0, update.count};
  const std::int64_t room = padded(update.count);
  std::int64_t used = 0;
  for (std::size_t s = 0; s < places.size(); ++s) {
    const std::int64_t count = update.states[s].count;
    if (count == update.count) continue;
    if (count > room) return std::nullopt;
    if (used + count > room) {
      used = 0;
      ++array;
    }
    places[s] = {array, used, count};
    used += count;
  }
  return places;
}

std::size_t arrays_of(std::span<const StatePlace> places) {
  std::size_t arrays = 0;
  for (const StatePlace& place : places) arrays = std::max(arrays, place.array + 1);
  return arrays;
}

CapturedGroup group_of(const ParameterUpdate& update, std::span<const StatePlace> places) {
  CapturedGroup group{.loss = update.loss, .phases = update.phases, .codes = {}};
  for (const UpdateGraph& program : update.programs)
    group.codes.push_back(element_code(program, update.count, places));
  return group;
}

// The padding behind a parameter is not updated: 0 / 0 would be NaN there.
Result<std::vector<GroupRun>> runs_of(const ParamTable& table, const ModelUpdates& updates) {
  std::map<std::string_view, std::size_t> update_of;
  for (std::size_t u = 0; u < updates.updates.size(); ++u)
    for (const std::string& name : updates.updates[u].parameters) update_of.emplace(name, u);
  std::vector<GroupRun> runs;
  for (std::size_t i = 0; i < table.trained().size(); ++i) {
    const ParamInfo& param = table.trained()[i];
    const auto found = update_of.find(param.name);
    if (found == update_of.end())
      return usage_error(
          "optimizer.kind = \"captured\": the model file has no update of the "
          "parameter \"" +
          param.name + "\"");
    const std::int64_t end = param.offset + param.count;
    const std::int64_t padded_end = table.padded_end(static_cast<ParamId>(i));
    runs.push_back({param.offset, end, found->second + 1});
    if (end != padded_end) runs.push_back({end, padded_end, 0});
  }
  return runs;
}

Status check_kind(const ModelUpdates* updates, const OptimizerSpec& spec) {
  const bool captured = spec.kind == "captured";
  if (captured == (updates != nullptr)) return {};
  return usage_error("optimizer.kind = \"" + spec.kind + "\": allowed is " +
                     (captured ? "\"sgd\", \"adam\" or \"adamw\", because the model brings no "
                                 "optimizer"
                               : "\"captured\", because the model file brings an optimizer"));
}

// A rate that the file does not have cannot be lowered.
Status check_schedule(const ModelUpdates& updates, const ScheduleSpec& schedule) {
  const auto falls = [](const ModelNumbers& numbers) { return numbers.reductions != 0; };
  if (schedule.kind != "plateau" || std::ranges::any_of(updates.numbers, falls)) return {};
  return usage_error(
      "schedule.kind = \"plateau\": allowed is another one, because the optimizer of the model "
      "file has no numbers of lowered learning rates");
}

}  // namespace

bool CapturedUpdates::any_whole() const {
  return std::ranges::any_of(optimizer.groups, [](const CapturedGroup& group) {
    return std::ranges::any_of(group.codes, [](const auto& code) { return !code.has_value(); });
  });
}

void CapturedUpdates::make_machine_code(CpuClass cpu_class) const {
  for (const CapturedGroup& group : optimizer.groups)
    for (const std::optional<CapturedCode>& code : group.codes)
      if (code) tile_code(code->code, cpu_class, INT64_MAX);
}

bool is_element_wise(const ParameterUpdate& update) {
  const auto places = places_of(update);
  if (!places) return false;
  const CapturedGroup group = group_of(update, *places);
  return std::ranges::all_of(group.codes, [](const auto& code) { return code.has_value(); });
}

void state_to_pytorch(const ParamInfo& param, const StatePlace& place, const float* ours,
                      float* theirs) {
  if (place.count == param.count) return to_pytorch(param, ours, theirs);
  std::copy_n(ours, place.count, theirs);
}

void state_from_pytorch(const ParamInfo& param, const StatePlace& place, const float* theirs,
                        float* ours) {
  if (place.count == param.count) return from_pytorch(param, theirs, ours);
  std::copy_n(theirs, place.count, ours);
}

std::vector<float> ParamState::values(const ParamTable& table,
                                      std::span<const HeldArray> moments) const {
  const ParamInfo& info = table[param];
  const float* const from = moments[place.array].data() + info.offset + place.offset;
  std::vector<float> values(static_cast<std::size_t>(place.count));
  state_to_pytorch(info, place, from, values.data());
  return values;
}

void ParamState::set(const ParamTable& table, const float* values,
                     std::span<HeldArray> moments) const {
  const ParamInfo& info = table[param];
  float* const to = moments[place.array].data() + info.offset + place.offset;
  state_from_pytorch(info, place, values, to);
}

bool use_evaluated(const ParamTable& table, std::span<const ParamState> states,
                   std::span<const HeldArray> moments, float* params) {
  bool found = false;
  for (const ParamState& state : states) {
    if (state.name != kEvaluatedState) continue;
    const std::int64_t begin = table[state.param].offset;
    std::copy_n(moments[state.place.array].data() + begin + state.place.offset, state.place.count,
                params + begin);
    found = true;
  }
  return found;
}

std::vector<ParamState> param_states(const ParamTable& table, const ModelUpdates& updates,
                                     const CapturedUpdates& captured) {
  std::vector<ParamState> states;
  for (std::size_t i = 0, run = 0; i < table.trained().size(); ++i) {
    while (captured.runs[run].begin != table.trained()[i].offset) ++run;
    const std::size_t update = captured.runs[run].group - 1;
    const std::vector<UpdateState>& known = updates.updates[update].states;
    for (std::size_t s = 0; s < known.size(); ++s)
      states.push_back(
          {static_cast<ParamId>(i), known[s].name, known[s].shape, captured.places[update][s]});
  }
  return states;
}

Result<CapturedUpdates> captured_updates(const ParamTable& table, const ModelUpdates* updates,
                                         const OptimizerSpec& spec, const ScheduleSpec& schedule,
                                         std::uint64_t total_steps) {
  ES_RETURN_IF_ERROR(check_kind(updates, spec));
  CapturedUpdates result;
  if (updates == nullptr) return result;
  ES_RETURN_IF_ERROR(check_schedule(*updates, schedule));
  result.optimizer.turns = updates->turns;
  result.optimizer.numbers = updates->numbers;
  if (updates->turns.several() && spec.ema > 0.0)
    return usage_error("optimizer.ema = " + number_text(spec.ema) +
                       ": allowed is 0 for a model of several losses");
  if (!updates->numbers.empty() && updates->numbers[0].steps() < total_steps)
    return usage_error("steps = " + std::to_string(total_steps) + ": allowed are at most " +
                       std::to_string(updates->numbers[0].steps()) +
                       ", for which the model file has the numbers of its optimizer");
  for (const ParameterUpdate& update : updates->updates) {
    const auto places = places_of(update);
    if (!places || arrays_of(*places) > kArraysMax)
      return usage_error("optimizer.kind = \"captured\": the states of \"" + update.parameters[0] +
                         "\" are too large: allowed is a state of at most as many elements as the "
                         "parameter, and " +
                         std::to_string(kArraysMax) + " times as many of all states together");
    result.optimizer.groups.push_back(group_of(update, *places));
    result.optimizer.moments = std::max(result.optimizer.moments, arrays_of(*places));
    result.places.push_back(*places);
  }
  auto runs = runs_of(table, *updates);
  if (!runs) return runs.error();
  result.runs = *std::move(runs);
  return result;
}

}  // namespace es::gpu
