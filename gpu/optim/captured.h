#pragma once
// An optimizer that a model file brings (ModelProgram::updates), as the engine runs it.
//
// The parameters of one update are a group. Most updates are element-wise: then one pass over the
// memory computes all elements of a parameter and of its moments. Other programs, such as those of
// Muon, need a whole parameter; they run outside of Optimizer (gpu/engine/whole_updates.h).
//
// Values only.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/canonical/program.h"
#include "proto/base/ids.h"
#include "proto/base/loss_turns.h"
#include "proto/base/model_program.h"

namespace es::gpu {

// The place of a state: `count` floats of moment array `array`, from `offset` on behind the
// beginning of the parameter.
struct StatePlace {
  std::size_t array = 0;
  std::int64_t offset = 0, count = 0;
  bool operator==(const StatePlace&) const = default;
};

// An element-wise update. Input 0 of the code is the summed gradient, 1 the parameter and 2 + m the
// moment m, as far as it reads them; output 0 is the parameter, and the others are moments.
struct CapturedCode {
  ElementCode code;
  std::vector<std::int32_t> inputs;  // [input of the code]: as above
  std::vector<std::size_t> moments;  // [output of the code - 1]: the moment that it writes
  std::vector<std::size_t> numbers;  // [first_number + i]: which number of the step this is
  std::int32_t first_number = 0;     // constants of the code from here on are numbers
  std::int32_t scale = -1;           // the constant that is the scale of the gradient; -1: none
  bool operator==(const CapturedCode&) const = default;
};

// Returns the program that updates this version.
std::size_t program_of(std::span<const ModelPhase> phases, Version version);

struct CapturedGroup {
  std::uint32_t loss = 0;  // in whose steps it is updated
  std::vector<ModelPhase> phases;
  std::vector<std::optional<CapturedCode>> codes;  // [program]; nothing: it needs whole parameters

  // Returns the code of the update of this version; nullptr: its program has none.
  const CapturedCode* code_of(Version version) const;
};

struct CapturedOptimizer {
  LossTurns turns;
  std::vector<ModelNumbers> numbers;
  std::vector<CapturedGroup> groups;  // [GroupRun::group - 1]; padding has the group 0
  std::size_t moments = 0;            // arrays
};

// The arguments of the kernel `program` that updates n elements. `step_code` is that of `captured`
// with the numbers of the step; the pointers are to the first element of each array.
struct CapturedCall {
  CapturedCall(const CapturedCode& captured, const ElementCode& step_code, float grad_scale,
               std::int64_t n, const float* grad_sum, float* params, float* const* moments);

  ElementCode code;
  ElementSpace space;
  std::array<const float*, kProgramInputs> in = {};
  std::array<float*, kProgramOutputs> out = {};
};

}  // namespace es::gpu
