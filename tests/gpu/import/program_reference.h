#pragma once
// Programs in fp64, written from the textbook definitions of the kinds, on arrays in logical order.
// It shares no code with the import and the engine.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "proto/base/model_program.h"

namespace es::test {

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // row-major
};

// Inputs and parameters by name, in logical order. Dropout does nothing.
using Arrays = std::map<std::string, Array>;

// Returns the value of every id of the program in training mode, for this batch size. The key is
// that of the random numbers.
std::vector<Array> evaluate_program(const ModelProgram& program, std::int64_t batch,
                                    const Arrays& given, const gpu::DropoutKey& key);

}  // namespace es::test
