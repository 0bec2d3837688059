#pragma once
// The captured optimizer of a model (ModelProgram::updates) as graphs for mini-batches of one
// sample. Values.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/graph.h"
#include "gpu/optim/captured.h"

namespace es::gpu {

struct UpdateState {
  std::string name;  // without "state."
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;  // elements
};

// The parameters of the table of a program's graph, in their order.
struct UpdateInput {
  enum class Kind { kParameter, kGradient, kState, kNumber } kind;
  std::size_t index = 0;  // of the state; of the number
};

struct UpdateGraph {
  Graph graph;                      // its outputs: the parameter, then the states
  std::vector<UpdateInput> inputs;  // [parameter of the graph's table]
};

struct ParameterUpdate {
  std::vector<std::string> parameters;
  std::int64_t count = 0;  // elements of each
  std::vector<UpdateState> states;
  std::vector<UpdateGraph> programs;
  std::vector<ModelPhase> phases;
};

struct ModelUpdates {
  std::vector<ModelNumbers> numbers;
  std::vector<ParameterUpdate> updates;
};

}  // namespace es::gpu
