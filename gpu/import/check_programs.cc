#include "gpu/import/check_parts.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/import/check.h"
#include "proto/base/loss_turns.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

// Checks one further program beside the model.
class ProgramCheck {
 public:
  ProgramCheck(const ModelProgram& model, const ModelProgram& program)
      : model_(model), program_(program) {}

  Status run() const {
    if (!program_.buffers.empty() || !program_.updates.empty() || !program_.numbers.empty() ||
        !program_.programs.empty() || !program_.every.empty())
      return usage_error(
          "has buffers, updates, numbers, programs or every: allowed in the model itself only");
    ES_RETURN_IF_ERROR(check_with_loss(program_));
    ES_RETURN_IF_ERROR(inputs());
    ES_RETURN_IF_ERROR(parameters());
    ES_RETURN_IF_ERROR(statistics());
    return states();
  }

 private:
  static std::string at(const char* list, std::size_t index) {
    return std::string(list) + "[" + std::to_string(index) + "]";
  }
  static std::string named(const char* list, std::size_t index, const std::string& name) {
    return at(list, index) + ".name = \"" + escaped(name) + "\": ";
  }
  const ModelValue& value(ValueId id) const {
    return program_.values[static_cast<std::size_t>(id)];
  }
  const ModelValue& value_of_model(ValueId id) const {
    return model_.values[static_cast<std::size_t>(id)];
  }

  // Both read the same fields of a sample.
  Status inputs() const {
    if (program_.inputs.size() != model_.inputs.size())
      return usage_error("inputs has " + std::to_string(program_.inputs.size()) +
                         " entries: allowed are those of the model, " +
                         std::to_string(model_.inputs.size()));
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const ModelInput &ours = program_.inputs[i], &theirs = model_.inputs[i];
      if (!model_.every.empty() && value(ours.value) != value_of_model(theirs.value))
        return usage_error(at("inputs", i) + ": allowed are the extents that \"" +
                           escaped(theirs.name) +
                           "\" has in the model, because all losses compute one mini-batch");
      if (ours.name != theirs.name || ours.low != theirs.low || ours.high != theirs.high ||
          value(ours.value).type != value_of_model(theirs.value).type)
        return usage_error(at("inputs", i) + ": allowed is \"" + escaped(theirs.name) +
                           "\" with the type and range that it has in the model");
    }
    return {};
  }

  // Returns the entry of the model's list, or an error.
  template <class Item>
  Result<const Item*> in_model(const char* list, const std::vector<Item>& of_model,
                               std::size_t index, const std::string& name) const {
    const auto found = std::ranges::find(of_model, name, &Item::name);
    if (found != of_model.end()) return &*found;
    return usage_error(named(list, index, name) + "allowed is a name in " + list + " of the model");
  }

  Status parameters() const {
    for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
      const ModelParameter& ours = program_.parameters[i];
      if (!ours.aliases.empty() || ours.init)
        return usage_error(at("parameters", i) +
                           " has aliases or initial values: allowed in the model itself only");
      const auto theirs = in_model("parameters", model_.parameters, i, ours.name);
      if (!theirs) return theirs.error();
      if (value(ours.value) != value_of_model((*theirs)->value))
        return usage_error(named("parameters", i, ours.name) +
                           "its value has another shape than in the model");
    }
    return {};
  }

  Status statistics() const {
    for (std::size_t i = 0; i < program_.statistics.size(); ++i) {
      const ModelStatistic& ours = program_.statistics[i];
      const auto theirs = in_model("statistics", model_.statistics, i, ours.name);
      if (!theirs) return theirs.error();
      if (ours != **theirs)
        return usage_error(named("statistics", i, ours.name) +
                           "it has another size or kind than in the model");
    }
    return {};
  }

  Status states() const {
    for (std::size_t i = 0; i < program_.states.size(); ++i) {
      const ModelState& ours = program_.states[i];
      const auto theirs = in_model("states", model_.states, i, ours.name);
      if (!theirs) return theirs.error();
      if (ours.dtype != (*theirs)->dtype || value(ours.value) != value_of_model((*theirs)->value))
        return usage_error(named("states", i, ours.name) +
                           "it has another type or shape than in the model");
    }
    return {};
  }

  const ModelProgram& model_;
  const ModelProgram& program_;
};

// Losses share no parameter that they train, and each has something to train.
Status check_losses(const ModelProgram& model) {
  if (model.every.empty()) return {};
  if (model.every.size() != model.programs.size() + 1 || model.every.size() < 2)
    return usage_error("every has " + std::to_string(model.every.size()) +
                       " entries: allowed are " + std::to_string(model.programs.size() + 1) +
                       ", one for each program, and at least 2");
  const auto turns = LossTurns::create(model.every);
  if (!turns) return turns.error();
  if (model.updates.empty())
    return usage_error("every: allowed in a model with updates, which say what each loss trains");
  std::map<std::string_view, std::size_t> owner;
  const auto add = [&](const ModelProgram& program, std::size_t loss) -> Status {
    for (std::size_t i = 0; i < program.parameters.size(); ++i) {
      const ModelParameter& parameter = program.parameters[i];
      if (!parameter.trainable || owner.emplace(parameter.name, loss).second) continue;
      return usage_error((loss == 0 ? "" : "programs[" + std::to_string(loss - 1) + "].") +
                         "parameters[" + std::to_string(i) + "] = \"" + escaped(parameter.name) +
                         "\" is trainable here and in an earlier program: allowed is one of the "
                         "losses for each parameter");
    }
    return {};
  };
  ES_RETURN_IF_ERROR(add(model, 0));
  for (std::size_t p = 0; p < model.programs.size(); ++p)
    ES_RETURN_IF_ERROR(add(model.programs[p], p + 1));
  for (std::size_t u = 0; u < model.updates.size(); ++u)
    for (const std::string& name : model.updates[u].parameters) {
      const auto found = owner.find(name), first = owner.find(model.updates[u].parameters.front());
      if (found != owner.end() && first != owner.end() && found->second != first->second)
        return usage_error("updates[" + std::to_string(u) + "].parameters has \"" + escaped(name) +
                           "\", which another loss trains than the first one: allowed are "
                           "parameters of one loss");
    }
  return {};
}

}  // namespace

Status check_programs(const ModelProgram& model) {
  ES_RETURN_IF_ERROR(check_losses(model));
  for (std::size_t p = 0; p < model.programs.size(); ++p) {
    const Status checked = ProgramCheck(model, model.programs[p]).run();
    if (!checked.ok())
      return usage_error("programs[" + std::to_string(p) + "]: " + checked.error().message);
  }
  return {};
}

}  // namespace es::gpu
