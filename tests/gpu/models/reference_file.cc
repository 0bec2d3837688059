#include "tests/gpu/models/reference_file.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/gpu/models/samples_by_formula.h"
#include "tests/support/places.h"

namespace es::test {
namespace {

void read_line(std::istringstream line, ModelReference& model) {
  std::string kind, name;
  line >> kind;
  if (kind == "loss") {
    line >> model.loss;
    return;
  }
  line >> name;
  if (kind == "grad" || kind == "output") {
    Summary s;
    line >> s.norm >> s.probe;
    if (kind == "grad")
      model.gradients[name] = s;
    else
      model.outputs.push_back(s);
    return;
  }
  std::vector<std::int64_t>& shape = (kind == "param" ? model.params : model.stats)[name];
  for (std::int64_t side = 0; line >> side;) shape.push_back(side);
}

}  // namespace

Summary summary(const std::vector<float>& values, const std::string& probe) {
  const std::vector<float> numbers = fill(probe, values.size());
  Summary s;
  for (std::size_t i = 0; i < values.size(); ++i) {
    s.norm += double(values[i]) * values[i];
    s.probe += double(values[i]) * numbers[i];
  }
  s.norm = std::sqrt(s.norm);
  return s;
}

ModelReference read_reference(const std::string& model) {
  const std::string path =
      (source_root() / "tests/gpu/models/reference" / (model + ".txt")).string();
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no reference " + path);
  ModelReference reference;
  for (std::string line; std::getline(file, line);) read_line(std::istringstream(line), reference);
  return reference;
}

}  // namespace es::test
