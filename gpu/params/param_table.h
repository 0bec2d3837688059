#pragma once
// The parameters and the batch-norm statistics of a model, and their places in memory.
//
// ONE contiguous fp32 array holds all parameters in the forward order of the model. Each parameter
// starts at a multiple of 16 floats (64 bytes). The padding between parameters is +0 and stays +0.
// Gradients, optimizer moments and reduced gradients have the same layout. Frozen parameters lie
// behind all others: they have no gradient, and no update changes them. The statistics (running
// mean and variance of every batch norm, and states that a model writes itself) lie without padding
// in a second array; each EST has its own.
//
// Values only. Immutable once the model is built, and readable from any thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace es::gpu {

using ParamId = std::int32_t;
constexpr ParamId kNoParam = -1;
constexpr std::int64_t kParamAlignmentFloats = 16;

// The initial value of every element is constant + uniform(-bound, bound).
struct ParamInit {
  float constant = 0.0F;
  float bound = 0.0F;
};

// The order of elements in memory. The engine uses [outer][spatial][channels]; PyTorch uses
// [outer][channels][spatial]:
//   convolution           outer = oc, spatial = kh*kw, channels = c/groups    (OHWI <-> OIHW)
//   linear on an image    outer = out, spatial = h*w, channels = c of the flattened image
//   anything else         spatial = 1: both orders are equal
struct ParamOrder {
  std::int64_t outer = 1;
  std::int64_t spatial = 1;
  std::int64_t channels = 1;
};

struct ParamInfo {
  std::string name;  // as in the PyTorch state dict, for example "layer1.0.conv1.weight"
  std::vector<std::int64_t> torch_shape;  // as in the PyTorch state dict
  ParamOrder order;
  ParamInit init;
  bool trained = true;      // false: frozen, or without influence on the loss
  std::int64_t offset = 0;  // offset in the flat array, floats
  std::int64_t count = 0;   // number of floats without padding
};

// One running statistic of a batch norm, for example "bn1.running_mean", or one state: the floats
// [offset, offset + count) of an EST's statistics.
struct StatInfo {
  std::string name;
  std::vector<std::int64_t> torch_shape;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  float initial = 0.0F;      // 0 for means and states, 1 for variances
  bool is_variance = false;  // a variance is never negative
  // Of a state: its type in the state dict, as safetensors names it. Truth values are the fp32
  // numbers 1 and +0, and an integer is the float with the bits of the int32. Empty: a statistic.
  std::string dtype;
  bool is_state() const { return !dtype.empty(); }
  bool has_integers() const { return is_state() && dtype != "F32" && dtype != "BOOL"; }
};

// A value that PyTorch's state dict contains beside parameters and statistics although it follows
// from the shape of the model, for example "features.1.0.attn.relative_position_index". It does not
// belong to the training state.
struct BufferInfo {
  std::string name;
  std::vector<std::int64_t> torch_shape;
  std::string dtype;             // "I64" or "F32", as safetensors names them
  std::vector<double> values;    // row-major; each is exact in the dtype
  std::vector<std::byte> bytes;  // of a model file, in place of the values; any dtype
  // Whether current state dicts contain it; otherwise only those of older PyTorch versions do.
  bool current = true;
};

// Another name of a parameter in the state dict: the weights of two modules are tied.
struct AliasInfo {
  std::string name;
  ParamId param = kNoParam;
};

class ParamTable {
 public:
  // Appends a parameter. The returned id is its index in params(). The function sets `info.offset`
  // and `info.count`. REQUIRES: no frozen parameter precedes one that is trained.
  ParamId add(ParamInfo info);
  // Appends one statistic of `channels` floats and returns its offset.
  std::int64_t add_mean(std::string name, std::int64_t channels);      // initially 0
  std::int64_t add_variance(std::string name, std::int64_t channels);  // initially 1
  // Appends one state and returns its offset.
  std::int64_t add_state(std::string name, std::vector<std::int64_t> torch_shape,
                         std::string dtype);
  void add_buffer(BufferInfo info) { buffers_.push_back(std::move(info)); }
  void add_alias(AliasInfo info) { aliases_.push_back(std::move(info)); }

  const std::vector<ParamInfo>& params() const { return params_; }
  // The parameters that are trained: the first ones of params().
  std::span<const ParamInfo> trained() const { return std::span(params_).first(trained_); }
  const ParamInfo& operator[](ParamId id) const;
  const std::vector<StatInfo>& stats() const { return stats_; }
  const std::vector<BufferInfo>& buffers() const { return buffers_; }
  const std::vector<AliasInfo>& aliases() const { return aliases_; }

  // Length of the flat array with padding: a multiple of 16.
  std::int64_t total_floats() const { return total_floats_; }
  // Length of the part with the parameters that are trained. Updates and gradients cover this part.
  std::int64_t trained_floats() const { return trained_floats_; }
  // Number of parameters without padding, as users count them.
  std::int64_t parameter_count() const;
  // Length of the statistics of one EST.
  std::int64_t stat_floats() const { return stat_floats_; }
  // End of the parameter's region with padding, which is the offset of the next parameter.
  std::int64_t padded_end(ParamId id) const;

 private:
  std::int64_t add_stat(StatInfo info);

  std::vector<ParamInfo> params_;
  std::vector<StatInfo> stats_;
  std::vector<BufferInfo> buffers_;
  std::vector<AliasInfo> aliases_;
  std::int64_t total_floats_ = 0;
  std::size_t trained_ = 0;  // number of parameters
  std::int64_t trained_floats_ = 0;
  std::int64_t stat_floats_ = 0;
};

}  // namespace es::gpu
