#pragma once
// The output of make_reference.py for a model: reference/MODEL.txt.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace es::test {

// A tensor's Euclidean norm and its dot product with fill("probe." + name).
struct Summary {
  double norm = 0.0;
  double probe = 0.0;
};
Summary summary(const std::vector<float>& values, const std::string& probe);

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

struct ModelReference {
  Shapes params, stats;  // In the published size.
  double loss = 0.0;     // The other members: in the tiny size.
  std::map<std::string, Summary> gradients;
  std::vector<Summary> outputs;
};

// REQUIRES: the file exists (it is part of the repository).
ModelReference read_reference(const std::string& model);

}  // namespace es::test
