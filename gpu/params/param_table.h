#pragma once
// The parameters and the batch-norm statistics of a model, and where each lies in memory.
//
// Parameters: ONE contiguous fp32 array holds all of them, in forward order of the model. Each
// starts at a multiple of 16 floats (64 bytes); the padding between them is +0 and stays +0.
// Gradients, momentum and reduced gradients use the same layout. Statistics (running mean and
// variance of every batch norm) lie dense in a second array, one per EST.
//
// Values only; immutable once the model is built; readable from any thread.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace es::gpu {

using ParamId = std::int32_t;
constexpr ParamId kNoParam = -1;
constexpr std::int64_t kParamAlignmentFloats = 16;

// Initial value of every element: constant + uniform(-bound, bound).
struct ParamInit {
  float constant = 0.0F;
  float bound = 0.0F;
};

// Memory order. Ours is [outer][spatial][channels], PyTorch's is [outer][channels][spatial]:
//   convolution           outer = oc, spatial = kh*kw, channels = c/groups    (OHWI <-> OIHW)
//   linear on an image    outer = out, spatial = h*w, channels = c of the flattened image
//   anything else         spatial = 1: the orders are equal
struct ParamOrder {
  std::int64_t outer = 1;
  std::int64_t spatial = 1;
  std::int64_t channels = 1;
};

struct ParamInfo {
  std::string name;                       // as in the PyTorch state dict, "layer1.0.conv1.weight"
  std::vector<std::int64_t> torch_shape;  // as in the PyTorch state dict
  ParamOrder order;
  ParamInit init;
  std::int64_t offset = 0;  // in the flat array, floats
  std::int64_t count = 0;   // floats without padding
};

// One running statistic of a batch norm: "bn1.running_mean", floats [offset, offset+count) of an
// EST's statistics.
struct StatInfo {
  std::string name;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  float initial = 0.0F;      // 0 for means, 1 for variances
  bool is_variance = false;  // never below 0
};

// What PyTorch's state dict holds beside parameters and statistics, though it follows from the
// model's shape: "features.1.0.attn.relative_position_index". No part of the training state.
struct BufferInfo {
  std::string name;
  std::vector<std::int64_t> torch_shape;
  std::string dtype;           // "I64" or "F32", as safetensors calls it
  std::vector<double> values;  // row-major, exact in the type
  // Whether the state dicts of today have it; else only those of older versions have.
  bool current = true;
};

class ParamTable {
 public:
  // Appends; the returned id is the index in params(). `info.offset` and `.count` are set here.
  ParamId add(ParamInfo info);
  // Appends one statistic of `channels` floats and returns its offset.
  std::int64_t add_mean(std::string name, std::int64_t channels);      // begins with 0
  std::int64_t add_variance(std::string name, std::int64_t channels);  // begins with 1
  void add_buffer(BufferInfo info) { buffers_.push_back(std::move(info)); }

  const std::vector<ParamInfo>& params() const { return params_; }
  const ParamInfo& operator[](ParamId id) const;
  const std::vector<StatInfo>& stats() const { return stats_; }
  const std::vector<BufferInfo>& buffers() const { return buffers_; }

  // Length of the flat array, padding included: a multiple of 16.
  std::int64_t total_floats() const { return total_floats_; }
  // Without padding: what a user calls the number of parameters.
  std::int64_t parameter_count() const;
  // Length of one EST's statistics.
  std::int64_t stat_floats() const { return stat_floats_; }
  // End of the parameter's region, padding included = the next parameter's offset.
  std::int64_t padded_end(ParamId id) const;

 private:
  std::int64_t add_stat(StatInfo info);

  std::vector<ParamInfo> params_;
  std::vector<StatInfo> stats_;
  std::vector<BufferInfo> buffers_;
  std::int64_t total_floats_ = 0;
  std::int64_t stat_floats_ = 0;
};

}  // namespace es::gpu
