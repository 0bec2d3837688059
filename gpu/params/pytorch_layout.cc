#include "gpu/params/pytorch_layout.h"

#include <algorithm>

namespace es::gpu {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) text += (text.size() == 1 ? "" : ",") + std::to_string(d);
  return text + "]";
}

// Returns the values of the named tensor after checking them against the shape in the model.
Result<const float*> find_values(std::span<const NamedTensor> tensors, const std::string& name,
                                 const std::vector<std::int64_t>& shape, std::int64_t count) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& t) { return t.name == name; });
  if (found == tensors.end()) return usage_error("weights: \"" + name + "\" is missing");
  if (found->shape != shape || static_cast<std::int64_t>(found->values.size()) != count)
    return usage_error("weights: \"" + name + "\" has shape " + shape_text(found->shape) + " and " +
                       std::to_string(found->values.size()) + " values: allowed is " +
                       shape_text(shape));
  return found->values.data();
}

// dst [outer][b][a] = src [outer][a][b]
void swap_inner(std::int64_t outer, std::int64_t a, std::int64_t b, const float* src, float* dst) {
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < a; ++i)
      for (std::int64_t j = 0; j < b; ++j) dst[(o * b + j) * a + i] = src[(o * a + i) * b + j];
}

}  // namespace

void to_pytorch(const ParamInfo& param, const float* ours, float* theirs) {
  swap_inner(param.order.outer, param.order.spatial, param.order.channels, ours, theirs);
}

void from_pytorch(const ParamInfo& param, const float* theirs, float* ours) {
  swap_inner(param.order.outer, param.order.channels, param.order.spatial, theirs, ours);
}

std::vector<NamedTensor> export_state(const ParamTable& table, const float* flat,
                                      const float* stats) {
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& p : table.params()) {
    NamedTensor t{p.name, p.torch_shape, std::vector<float>(static_cast<std::size_t>(p.count))};
    to_pytorch(p, flat + p.offset, t.values.data());
    tensors.push_back(std::move(t));
  }
  for (const StatInfo& s : table.stats())
    tensors.push_back({s.name, s.torch_shape, {stats + s.offset, stats + s.offset + s.count}});
  return tensors;
}

Status import_state(const ParamTable& table, std::span<const NamedTensor> tensors, float* flat,
                    float* stats) {
  // The padding between the parameters must be +0.
  std::fill(flat, flat + table.total_floats(), 0.0F);
  for (const ParamInfo& p : table.params()) {
    const Result<const float*> values = find_values(tensors, p.name, p.torch_shape, p.count);
    if (!values) return values.error();
    from_pytorch(p, *values, flat + p.offset);
  }
  for (const StatInfo& s : table.stats()) {
    const Result<const float*> values = find_values(tensors, s.name, s.torch_shape, s.count);
    if (!values) return values.error();
    std::copy_n(*values, s.count, stats + s.offset);
  }
  return {};
}

}  // namespace es::gpu
