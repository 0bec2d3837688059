#pragma once
// The values of a ModelProgram for one batch size: their types and shapes in numbers.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/graph/shape.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// The largest extent of a value, and its largest number of elements at the batch size in use.
constexpr std::int64_t kValueElementsMax = std::int64_t{1} << 40;

// The logical shape is that of PyTorch. A number has rank 0.
struct ValueInfo {
  ValueType type = ValueType::kF32;
  TensorShape shape;
  bool operator==(const ValueInfo&) const = default;
};

// Returns the values in their order. Error (usage): a rank above 8, an extent outside [1, 2^40], or
// more than 2^40 elements at this batch size. REQUIRES: batch > 0.
Result<std::vector<ValueInfo>> values_at(std::span<const ModelValue> values, std::int64_t batch);

const char* type_name(ValueType type);          // "f32", "i32", "bool", "i64"
std::string value_text(const ValueInfo& info);  // "f32 [2,64,8,8]"

}  // namespace es::gpu
