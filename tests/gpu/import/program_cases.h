#pragma once
// Small programs that together contain every kind of node but one.
#include <string>
#include <vector>

#include "proto/base/model_program.h"

namespace es::test {

struct ProgramCase {
  std::string name;
  ModelProgram program;
  bool trains_only = false;  // the evaluation computes something else
};

std::vector<ProgramCase> program_cases();

// A program with the loss `yolo`, which the cases lack.
ModelProgram detector_program();

}  // namespace es::test
