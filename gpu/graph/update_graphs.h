#pragma once
// The optimizer that a model file brings (ModelProgram::updates), with its programs as graphs.
// Their batch size is 1, because no value of an update has a batch. Values.
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

// What an update reads. To its graph, all of these are parameters.
struct UpdateInput {
  enum class Kind { kParameter, kGradient, kState, kNumber } kind;
  std::size_t index = 0;  // kState: in ParameterUpdate::states; kNumber: in ModelUpdates::numbers
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
  std::uint32_t loss = 0;  // in whose steps it is made (ModelUpdates::turns)
};

struct ModelUpdates {
  LossTurns turns;
  std::vector<ModelNumbers> numbers;
  std::vector<ParameterUpdate> updates;
};

}  // namespace es::gpu
