#include "gpu/import/check_updates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/import/check.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

// The states of an update: by name, in the order of the program's lists.
using States = std::vector<std::pair<std::string, std::vector<ModelDim>>>;

Error at(const std::string& path, const std::string& what) {
  return usage_error(path + what);
}

std::optional<std::size_t> number_in(std::string_view name) {
  const std::string_view digits = name.substr(kUpdateNumber.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Checks one program of an update.
class UpdateCheck {
 public:
  UpdateCheck(const ModelProgram& program, std::size_t numbers, std::string path)
      : p_(program), numbers_(numbers), path_(std::move(path)) {}

  // Returns the states.
  Result<States> run(const std::vector<ModelDim>& shape) {
    ES_RETURN_IF_ERROR(nothing_else());
    // Outputs of a model have an extent per batch, and those of an update have none.
    ModelProgram nodes = as_model(p_);
    nodes.outputs = {{"nothing", nodes.inputs[0].value}};
    const Status checked = check_nodes(nodes, 1);
    if (!checked.ok()) return at(path_ + ".", checked.error().message);
    ES_RETURN_IF_ERROR(parameters(shape));
    ES_RETURN_IF_ERROR(outputs());
    return states_;
  }

 private:
  Status nothing_else() const {
    if (!p_.inputs.empty() || !p_.statistics.empty() || !p_.states.empty() || !p_.buffers.empty() ||
        !p_.updates.empty() || !p_.numbers.empty() || !p_.programs.empty() || !p_.every.empty() ||
        p_.loss != kNoValue)
      return at(
          path_,
          " has inputs, statistics, states, buffers, updates, programs or a loss: allowed are "
          "parameters, constants, nodes and outputs");
    return {};
  }

  Status parameters(const std::vector<ModelDim>& shape) {
    if (p_.parameters.size() < 2)
      return at(path_ + ".parameters",
                " has too few entries: allowed are \"parameter\", "
                "\"gradient\", states and numbers");
    for (std::size_t i = 0; i < p_.parameters.size(); ++i) {
      const ModelParameter& parameter = p_.parameters[i];
      const std::string path = path_ + ".parameters[" + std::to_string(i) + "]";
      const ModelValue& value = p_.values[static_cast<std::size_t>(parameter.value)];
      if (parameter.trainable || parameter.init || value.type != ValueType::kF32)
        return at(path, ": allowed is f32, not trainable and without initial values");
      const bool is_number = parameter.name.starts_with(kUpdateNumber);
      const bool known = i == 0   ? parameter.name == kUpdateParameter
                         : i == 1 ? parameter.name == kUpdateGradient
                                  : is_number || parameter.name.starts_with(kUpdateState);
      if (!known)
        return at(path, ".name = \"" + escaped(parameter.name) + "\": allowed is " +
                            (i == 0   ? "parameter"
                             : i == 1 ? "gradient"
                                      : "state. or number. with a name"));
      if (is_number) {
        const std::optional<std::size_t> number = number_in(parameter.name);
        if (!number || *number >= numbers_)
          return at(path, ".name = \"" + escaped(parameter.name) + "\": allowed is number.0 to " +
                              "number." + std::to_string(std::max<std::size_t>(numbers_, 1) - 1));
      }
      const std::vector<ModelDim>& wanted = is_number ? kNoDims : shape;
      const bool is_evaluated = parameter.name == std::string(kUpdateState) + kEvaluatedState;
      if ((i < 2 || is_number || is_evaluated) && value.dims != wanted)
        return at(path, ".value has another shape than " +
                            std::string(is_number ? "a number" : "the parameters of the update"));
      if (i >= 2 && !is_number) states_.emplace_back(parameter.name, value.dims);
    }
    return {};
  }

  bool is_written(ValueId id) const {
    return std::ranges::any_of(p_.parameters, [&](const auto& x) { return x.value == id; }) ||
           std::ranges::any_of(p_.constants, [&](const auto& x) { return x.value == id; }) ||
           std::ranges::any_of(p_.nodes, [&](const ModelNode& node) {
             return std::ranges::find(node.outputs, id) != node.outputs.end();
           });
  }

  Status outputs() const {
    if (p_.outputs.size() != states_.size() + 1)
      return at(path_ + ".outputs", " has " + std::to_string(p_.outputs.size()) +
                                        " entries: allowed are the parameter and its " +
                                        std::to_string(states_.size()) + " states");
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
      const ModelOutput& output = p_.outputs[i];
      const std::string path = path_ + ".outputs[" + std::to_string(i) + "]";
      if (!is_written(output.value))
        return at(path, ".value = " + std::to_string(output.value) +
                            ": allowed is a value that a node writes");
      const ModelValue& value = p_.values[static_cast<std::size_t>(output.value)];
      const std::string& name = i == 0 ? p_.parameters[0].name : states_[i - 1].first;
      const std::vector<ModelDim>& dims =
          i == 0 ? p_.values[static_cast<std::size_t>(p_.parameters[0].value)].dims
                 : states_[i - 1].second;
      if (output.name != name || value.type != ValueType::kF32 || value.dims != dims)
        return at(path,
                  ": allowed is \"" + escaped(name) + "\" with the type and shape that it had");
    }
    return {};
  }

  inline static const std::vector<ModelDim> kNoDims;

  const ModelProgram& p_;
  std::size_t numbers_;
  std::string path_;
  States states_;
};

Status check_phases(const ModelUpdate& update, const std::string& path) {
  if (update.phases.empty() || update.phases.front().first_step != 0)
    return at(path + ".phases", ": allowed is a list whose first entry begins at the step 0");
  for (std::size_t i = 0; i < update.phases.size(); ++i) {
    const std::string phase = path + ".phases[" + std::to_string(i) + "]";
    if (i > 0 && update.phases[i].first_step <= update.phases[i - 1].first_step)
      return at(phase, ".firstStep = " + std::to_string(update.phases[i].first_step) +
                           ": allowed is a later step than that of the phase before it");
    if (update.phases[i].program >= update.programs.size())
      return at(phase, ".program = " + std::to_string(update.phases[i].program) +
                           ": allowed is 0 to " +
                           std::to_string(static_cast<std::int64_t>(update.programs.size()) - 1));
  }
  return {};
}

// The programs of an update have the same states, because the arrays of the optimizer are the same
// in all steps.
Status check_programs(const ModelUpdate& update, const std::vector<ModelDim>& shape,
                      std::size_t numbers, const std::string& path) {
  std::optional<States> states;
  for (std::size_t i = 0; i < update.programs.size(); ++i) {
    const std::string program = path + ".programs[" + std::to_string(i) + "]";
    auto found = UpdateCheck(update.programs[i], numbers, program).run(shape);
    if (!found) return found.error();
    if (states && *found != *states)
      return at(program,
                " has other states than the first program: allowed are the same names and "
                "shapes in the same order");
    states = *std::move(found);
  }
  return {};
}

Status check_numbers(const ModelProgram& program) {
  for (std::size_t i = 0; i < program.numbers.size(); ++i) {
    const ModelNumbers& numbers = program.numbers[i];
    const std::string path = "numbers[" + std::to_string(i) + "].values";
    const std::size_t steps = program.numbers[0].steps();
    if (steps == 0 || numbers.values.size() != (std::size_t{numbers.reductions} + 1) * steps)
      return at(path, " has " + std::to_string(numbers.values.size()) +
                          " entries: allowed is one for each step, as many as numbers[0] has, and "
                          "at least one; and as many for each of the " +
                          std::to_string(numbers.reductions) + " reductions");
    for (std::size_t k = 0; k < numbers.values.size(); ++k)
      if (!std::isfinite(numbers.values[k]))
        return at(path, "[" + std::to_string(k) + "] is not finite");
  }
  return {};
}

// The parameters that any program trains.
std::set<std::string_view> trainable_names(const ModelProgram& program) {
  std::set<std::string_view> names;
  const auto add = [&](const ModelProgram& from) {
    for (const ModelParameter& parameter : from.parameters)
      if (parameter.trainable) names.insert(parameter.name);
  };
  add(program);
  for (const ModelProgram& further : program.programs) add(further);
  return names;
}

}  // namespace

std::size_t number_of(const ModelParameter& parameter) {
  return *number_in(parameter.name);
}

Status check_updates(const ModelProgram& program) {
  if (program.updates.empty() && !program.numbers.empty())
    return usage_error("numbers: allowed in a model with updates");
  ES_RETURN_IF_ERROR(check_numbers(program));
  std::map<std::string_view, const ModelParameter*> parameters;
  for (const ModelParameter& parameter : program.parameters)
    parameters[parameter.name] = &parameter;
  const std::set<std::string_view> trainable = trainable_names(program);
  std::set<std::string_view> updated;
  for (std::size_t u = 0; u < program.updates.size(); ++u) {
    const ModelUpdate& update = program.updates[u];
    const std::string path = "updates[" + std::to_string(u) + "]";
    if (update.parameters.empty())
      return at(path + ".parameters", ": allowed is at least one name");
    const std::vector<ModelDim>* shape = nullptr;
    for (std::size_t i = 0; i < update.parameters.size(); ++i) {
      const std::string& name = update.parameters[i];
      const std::string where =
          path + ".parameters[" + std::to_string(i) + "] = \"" + escaped(name);
      const auto found = parameters.find(name);
      if (found == parameters.end() || !trainable.contains(name))
        return at(where, "\": allowed is a parameter of the model that is trainable");
      if (!updated.insert(name).second) return at(where, "\": the parameter is updated twice");
      const auto& dims = program.values[static_cast<std::size_t>(found->second->value)].dims;
      if (shape != nullptr && dims != *shape)
        return at(where, "\": it has another shape than the first parameter of the update");
      shape = &dims;
    }
    ES_RETURN_IF_ERROR(check_phases(update, path));
    ES_RETURN_IF_ERROR(check_programs(update, *shape, program.numbers.size(), path));
  }
  return {};
}

ModelProgram as_model(ModelProgram update) {
  const auto add = [&](std::vector<ModelDim> dims) {
    update.values.push_back({.type = ValueType::kF32, .dims = std::move(dims)});
    return static_cast<ValueId>(update.values.size() - 1);
  };
  update.inputs.push_back({.name = "nothing", .value = add({{1, true}})});
  update.loss = add({});
  update.constants.push_back({.name = "no loss", .value = update.loss, .words = {0}});
  return update;
}

}  // namespace es::gpu
