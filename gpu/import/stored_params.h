#pragma once
// How the engine stores what the programs of a model share: their parameters, statistics and
// states. Pure functions.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/import/node_view.h"
#include "gpu/params/param_table.h"
#include "proto/base/model_program.h"

namespace es::gpu {

// A program with the nodes of it that are lowered.
struct LiveProgram {
  const ModelProgram* program = nullptr;
  std::vector<ValueInfo> values;
  std::vector<NodeView> nodes = {};  // views of both
  std::vector<int> uses = {};  // [value]: how often nodes and the lists of the program read it
  int uses_of(ValueId id) const { return uses[static_cast<std::size_t>(id)]; }
};

struct StoredParam {
  std::string_view name;
  bool kernel = false;  // with its channels last
  // Of the weight of a linear layer on an image, whose columns have these channels last; 0: of no
  // such weight.
  std::int64_t image_channels = 0;
};

struct StoredModel {
  ParamTable table;
  std::vector<StoredParam> params;  // [ParamId]
};

// Returns LiveProgram::uses.
std::vector<int> uses_of_values(const LiveProgram& live);

// Returns whether each parameter of the program is trained by it: [parameter], it is trainable, and
// the loss depends on it.
std::vector<bool> trained_parameters(const LiveProgram& live);

// The table of a model whose first program lists all parameters, statistics and states: those that
// any program trains, in the order of their first use, then the others. A parameter is stored as
// its first use wants it. Statistics are in the order of their first use, behind the states. What
// only the list names, and no node uses, has a place in a model of several programs.
StoredModel stored_model(std::span<const LiveProgram> programs);

}  // namespace es::gpu
