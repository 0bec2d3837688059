#pragma once
// What a model file asks of the samples: its inputs. A plain value.
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/model_program.h"
#include "proto/base/sample_layout.h"

namespace es::store {

struct CapturedInput {
  SampleField field;
  ValueType type = ValueType::kF32;
  // The extents of one sample; none for a number. A field of the shape [c,h,w] is stored as [h,w,c]
  // in a sample, and every other field as it is (gpu/import/import.h).
  std::vector<std::int64_t> shape;
};

// The input with which metrics compare the first output of the model.
struct CapturedTarget {
  std::size_t input = 0;             // its index
  std::vector<std::int64_t> output;  // the extents of the output for one sample
  // The model has a binary cross entropy, so its outputs say yes or no.
  bool decides = false;
  // The model has a loss of probabilities, so 0.5 and not 0 divides a yes from a no.
  bool probabilities = false;
};

struct CapturedInputs {
  std::vector<CapturedInput> inputs;
  // Whether the input "label" is the class that the first output predicts.
  bool predicts_label = false;
  // The number of classes of the boxes that the loss compares; 0: it compares none.
  std::uint32_t box_classes = 0;
  std::optional<CapturedTarget> target = {};  // nothing: there is no such input
  // Of the other programs of the model file, which differ from the model in the extents of their
  // inputs if they are those of length buckets (store/dataset/length_buckets.h).
  std::vector<CapturedInputs> others = {};

  // The inputs of a program. REQUIRES: program <= others.size().
  const CapturedInputs& of(std::uint32_t program) const {
    return program == 0 ? *this : others[program - 1];
  }

  SampleLayout layout() const {
    SampleLayout all;
    for (const CapturedInput& input : inputs) all.fields.push_back(input.field);
    return all;
  }
};

}  // namespace es::store
