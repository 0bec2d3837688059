#include "gpu/import/import_updates.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/import/check_updates.h"
#include "gpu/import/import.h"

namespace es::gpu {
namespace {

UpdateInput input_of(const ModelParameter& parameter, std::size_t& states) {
  using Kind = UpdateInput::Kind;
  if (parameter.name == kUpdateParameter) return {Kind::kParameter};
  if (parameter.name == kUpdateGradient) return {Kind::kGradient};
  if (parameter.name.starts_with(kUpdateState)) return {Kind::kState, states++};
  return {Kind::kNumber, number_of(parameter)};
}

Result<UpdateGraph> import_update_program(const ModelProgram& program) {
  auto graph = import_nodes(as_model(program), 1);
  if (!graph) return graph.error();
  UpdateGraph update{.graph = *std::move(graph), .inputs = {}};
  std::map<std::string_view, UpdateInput> inputs;
  std::size_t states = 0;
  for (const ModelParameter& parameter : program.parameters)
    inputs.emplace(parameter.name, input_of(parameter, states));
  for (const ParamInfo& param : update.graph.table.params())
    update.inputs.push_back(inputs.at(param.name));
  return update;
}

// REQUIRES: no extent is per batch, as check_updates() requires.
UpdateState state_of(const ModelProgram& program, const ModelParameter& parameter) {
  UpdateState state{.name = parameter.name, .shape = {}, .count = 1};
  for (const ModelDim& dim : program.values[static_cast<std::size_t>(parameter.value)].dims) {
    state.shape.push_back(dim.size);
    state.count *= dim.size;
  }
  return state;
}

Result<ParameterUpdate> import_update(const ModelUpdate& update) {
  ParameterUpdate result{.parameters = update.parameters, .phases = update.phases};
  const ModelProgram& first = update.programs.front();
  result.count = state_of(first, first.parameters.front()).count;
  for (const ModelParameter& parameter : first.parameters) {
    if (!parameter.name.starts_with(kUpdateState)) continue;
    result.states.push_back(state_of(first, parameter));
    result.states.back().name = parameter.name.substr(kUpdateState.size());
  }
  for (const ModelProgram& program : update.programs) {
    auto imported = import_update_program(program);
    if (!imported) return imported.error();
    result.programs.push_back(*std::move(imported));
  }
  return result;
}

// Returns the loss that trains the parameter.
std::uint32_t loss_of(const ModelProgram& model, const std::string& name) {
  for (std::uint32_t p = 0; p < model.programs.size(); ++p)
    for (const ModelParameter& parameter : model.programs[p].parameters)
      if (parameter.name == name && parameter.trainable) return p + 1;
  return 0;
}

}  // namespace

Result<ModelUpdates> import_updates(const ModelProgram& program) {
  const auto turns = LossTurns::create(program.every);
  if (!turns) return turns.error();
  ModelUpdates updates{.turns = *turns, .numbers = program.numbers, .updates = {}};
  for (std::size_t u = 0; u < program.updates.size(); ++u) {
    auto update = import_update(program.updates[u]);
    if (!update)
      return usage_error("updates[" + std::to_string(u) + "]: " + update.error().message);
    updates.updates.push_back(*std::move(update));
    if (turns->several())
      updates.updates.back().loss = loss_of(program, program.updates[u].parameters.front());
  }
  return updates;
}

}  // namespace es::gpu
