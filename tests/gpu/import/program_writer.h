#pragma once
// Writes model programs in C++, for tests.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/model_program.h"

namespace es::test {

using Dims = std::vector<ModelDim>;

// The batch as an extent.
constexpr ModelDim kBatchDim{1, true};
Dims dims(std::initializer_list<std::int64_t> extents);
// [B, extents...]
Dims per_sample(std::initializer_list<std::int64_t> extents);

class ProgramWriter {
 public:
  // A field of a sample; `extents` are those after the batch.
  ValueId input(const std::string& name, std::initializer_list<std::int64_t> extents);
  // Integers in [0, high].
  ValueId ids(const std::string& name, std::initializer_list<std::int64_t> extents,
              std::int32_t high);
  ValueId parameter(const std::string& name, std::initializer_list<std::int64_t> extents,
                    bool trainable = true);
  ValueId constant(std::initializer_list<std::int64_t> extents, const std::vector<float>& values);
  // The same for extents that are known later.
  ValueId input_of(const std::string& name, const std::vector<std::int64_t>& extents);
  ValueId parameter_of(const std::string& name, const std::vector<std::int64_t>& extents,
                       bool trainable = true);
  ValueId constant_of(Dims extents, const std::vector<float>& values);
  ValueId constant_ids(std::initializer_list<std::int64_t> extents,
                       const std::vector<std::int32_t>& values);
  // Appends a node with one output, whose type and extents follow from the shape rule of its kind.
  ValueId node(const std::string& kind, const std::vector<ValueId>& inputs,
               const std::vector<ModelAttribute>& attributes = {}, const std::string& name = "");
  // The same with stated extents, for kinds whose output says the shape.
  ValueId shaped(const std::string& kind, ValueId x, const Dims& extents);
  // A state, whose first content is 0; a node set_state must follow.
  ValueId state(const std::string& name, std::initializer_list<std::int64_t> extents,
                const std::string& dtype = "F32", ValueType type = ValueType::kF32);
  // Random numbers: the kind is uniform or normal.
  ValueId draw(const std::string& kind, const Dims& extents, std::int64_t site);

  // Layers with parameters, as modules of PyTorch.
  ValueId conv(const std::string& name, ValueId x, std::int64_t out, std::int64_t kernel,
               std::int64_t stride, std::int64_t padding);
  ValueId batch_norm(const std::string& name, ValueId x);
  ValueId linear(const std::string& name, ValueId x, std::int64_t out);

  void output(const std::string& name, ValueId value) { program.outputs.push_back({name, value}); }
  // The mean cross-entropy of the logits becomes the loss, and the logits the output.
  void classify(ValueId logits, ValueId labels);

  const Dims& dims_of(ValueId id) const {
    return program.values[static_cast<std::size_t>(id)].dims;
  }

  ModelProgram program;

 private:
  ValueId value(ValueType type, Dims extents);
};

}  // namespace es::test
