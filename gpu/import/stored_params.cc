#include "gpu/import/stored_params.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"

namespace es::gpu {
namespace {

// Collects the parameters of a model in the order of their first use.
class StoredParams {
 public:
  explicit StoredParams(std::span<const LiveProgram> programs)
      : programs_(programs), main_(*programs.front().program) {
    for (std::size_t i = 0; i < main_.parameters.size(); ++i) index_[main_.parameters[i].name] = i;
    trained_.resize(main_.parameters.size());
    seen_.resize(main_.parameters.size());
    for (const LiveProgram& live : programs) note_trained(live);
    for (const LiveProgram& live : programs) note_uses(live);
    for (std::size_t i = 0; i < seen_.size(); ++i)
      if (!seen_[i]) sequence_.emplace_back(i, StoredParam{.name = main_.parameters[i].name});
  }

  void add_to(StoredModel& model) const {
    // ParamTable wants the trained parameters first. In the order of first use the parameters of a
    // layer are neighbours, and their gradients become complete from the last to the first.
    for (const bool trained : {true, false})
      for (const auto& [i, param] : sequence_) {
        if (trained_[i] != trained) continue;
        model.table.add(info_of(main_.parameters[i], param, trained));
        model.params.push_back(param);
      }
  }

 private:
  void note_trained(const LiveProgram& live) {
    const std::vector<bool> trained = trained_parameters(live);
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (trained[i]) trained_[index_.at(live.program->parameters[i].name)] = true;
  }

  void note_uses(const LiveProgram& live) {
    std::map<ValueId, std::size_t> param_of;  // [value]
    for (const ModelParameter& parameter : live.program->parameters)
      param_of[parameter.value] = index_.at(parameter.name);
    for (const NodeView& node : live.nodes)
      for (std::size_t slot = 0; slot < node.inputs(); ++slot) {
        const auto found = node.has(slot) ? param_of.find(node.input(slot)) : param_of.end();
        if (found == param_of.end() || seen_[found->second]) continue;
        seen_[found->second] = true;
        sequence_.emplace_back(found->second, first_use(live, node, slot, found->second));
      }
  }

  StoredParam first_use(const LiveProgram& live, const NodeView& node, std::size_t slot,
                        std::size_t i) const {
    const std::vector<Slot>& slots = node.kind().slots;
    const Slot& rule = slots[std::min(slot, slots.size() - 1)];
    StoredParam param{.name = main_.parameters[i].name, .kernel = rule.kernel};
    // A parameter with another use, or one that is frozen, stays in logical order;
    // set_image_weight() then moves a tensor of it.
    if (rule.of_image && trained_[i] && programs_.size() == 1 &&
        live.uses_of(node.input(slot)) == 1)
      param.image_channels = node.shape()[1];
    return param;
  }

  ParamInfo info_of(const ModelParameter& parameter, const StoredParam& stored,
                    bool trained) const {
    const TensorShape& shape =
        programs_.front().values[static_cast<std::size_t>(parameter.value)].shape;
    ParamInfo info{.name = parameter.name, .order = {.outer = shape.count()}, .trained = trained};
    for (int axis = 0; axis < shape.rank(); ++axis) info.torch_shape.push_back(shape[axis]);
    if (parameter.init)
      info.init = {.constant = parameter.init->constant, .bound = parameter.init->bound};
    // A kernel is stored with its channels last. The order says how PyTorch has the elements.
    if (stored.kernel && channels_last(shape.rank()) != logical_order(shape.rank()))
      info.order = {
          .outer = shape[0], .spatial = shape.count(2, shape.rank()), .channels = shape[1]};
    if (stored.image_channels != 0)
      info.order = {.outer = shape[0],
                    .spatial = shape[1] / stored.image_channels,
                    .channels = stored.image_channels};
    return info;
  }

  std::span<const LiveProgram> programs_;
  const ModelProgram& main_;
  std::map<std::string_view, std::size_t> index_;              // of main_.parameters
  std::vector<bool> trained_, seen_;                           // [parameter of main_]
  std::vector<std::pair<std::size_t, StoredParam>> sequence_;  // parameters of main_
};

void add_states(const LiveProgram& main, ParamTable& table) {
  for (const ModelState& state : main.program->states) {
    const TensorShape& shape = main.values[static_cast<std::size_t>(state.value)].shape;
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
    table.add_state(state.name, std::move(extents), state.dtype);
  }
}

void add_statistics(const LiveProgram& live, ParamTable& table) {
  const auto known = [&](const ModelStatistic& statistic) {
    return std::ranges::find(table.stats(), statistic.name, &StatInfo::name) != table.stats().end();
  };
  for (const NodeView& node : live.nodes) {
    if (node.node().kind != "batch_norm") continue;
    const auto& statistics = live.program->statistics;
    const auto& mean = statistics[static_cast<std::size_t>(node.integer("mean"))];
    const auto& variance = statistics[static_cast<std::size_t>(node.integer("variance"))];
    if (!known(mean)) table.add_mean(mean.name, mean.size);
    if (!known(variance)) table.add_variance(variance.name, variance.size);
  }
}

}  // namespace

std::vector<int> uses_of_values(const LiveProgram& live) {
  std::vector<int> uses(live.program->values.size(), 0);
  const auto use = [&](ValueId id) {
    if (id != kNoValue) ++uses[static_cast<std::size_t>(id)];
  };
  // A zero_loss computes nothing with what it names.
  for (const NodeView& node : live.nodes)
    if (node.node().kind != kZeroLoss)
      for (const ValueId id : node.node().inputs) use(id);
  for (const ModelOutput& output : live.program->outputs) use(output.value);
  use(live.program->loss);
  return uses;
}

std::vector<bool> trained_parameters(const LiveProgram& live) {
  const ModelProgram& program = *live.program;
  std::vector<bool> reached(program.values.size(), false), trained;
  reached[static_cast<std::size_t>(program.loss)] = true;
  for (std::size_t n = live.nodes.size(); n-- > 0;) {
    const ModelNode& node = live.nodes[n].node();
    const bool reaches =
        node.kind == kZeroLoss ||
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
          return reached[static_cast<std::size_t>(id)] &&
                 program.values[static_cast<std::size_t>(id)].type == ValueType::kF32;
        });
    // The gradient ends here, and so does the training of what lies before it.
    if (!reaches || node.kind == "stop_gradient") continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) reached[static_cast<std::size_t>(id)] = true;
  }
  for (const ModelParameter& parameter : program.parameters)
    trained.push_back(parameter.trainable && reached[static_cast<std::size_t>(parameter.value)]);
  return trained;
}

StoredModel stored_model(std::span<const LiveProgram> programs) {
  StoredModel model;
  StoredParams(programs).add_to(model);
  add_states(programs.front(), model.table);
  for (const LiveProgram& live : programs) add_statistics(live, model.table);
  return model;
}

}  // namespace es::gpu
