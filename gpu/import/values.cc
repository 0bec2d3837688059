#include "gpu/import/values.h"

namespace es::gpu {
namespace {

std::string value_path(std::size_t index) {
  return "values[" + std::to_string(index) + "]";
}

Result<ValueInfo> value_at(const ModelValue& value, std::size_t index, std::int64_t batch) {
  if (value.dims.size() > static_cast<std::size_t>(kRankMax))
    return usage_error(value_path(index) + ".dims has " + std::to_string(value.dims.size()) +
                       " extents: allowed are at most " + std::to_string(kRankMax));
  ValueInfo info{value.type, {}};
  std::int64_t count = 1;
  for (std::size_t d = 0; d < value.dims.size(); ++d) {
    const ModelDim& dim = value.dims[d];
    if (dim.size < 1 || dim.size > kValueElementsMax)
      return usage_error(value_path(index) + ".dims[" + std::to_string(d) +
                         "].size = " + std::to_string(dim.size) + ": allowed is 1 to 2^40");
    // The limit is tested before each product, so no extent of a file can overflow it.
    for (const std::int64_t factor : {dim.size, dim.per_batch ? batch : 1}) {
      if (factor > kValueElementsMax / count)
        return usage_error(value_path(index) + " has more than 2^40 elements at batch size " +
                           std::to_string(batch));
      count *= factor;
    }
    // An extent of a file is a number, or a number for each sample of the mini-batch.
    info.shape.append(dim.per_batch ? dim.size * batch : dim.size);
  }
  return info;
}

}  // namespace

Result<std::vector<ValueInfo>> values_at(std::span<const ModelValue> values, std::int64_t batch) {
  std::vector<ValueInfo> infos;
  infos.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Result<ValueInfo> info = value_at(values[i], i, batch);
    if (!info) return info.error();
    infos.push_back(*info);
  }
  return infos;
}

const char* type_name(ValueType type) {
  switch (type) {
    case ValueType::kF32:
      return "f32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kI64:
      return "i64";
  }
  return "unknown";
}

std::string value_text(const ValueInfo& info) {
  return std::string(type_name(info.type)) + " " + shape_text(info.shape);
}

}  // namespace es::gpu
