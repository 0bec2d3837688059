#include "gpu/params/param_table.h"

#include "proto/base/check.h"

namespace es::gpu {

ParamId ParamTable::add(ParamInfo info) {
  info.offset = total_floats_;
  info.count = info.order.outer * info.order.spatial * info.order.channels;
  // Each parameter is padded to a whole number of cache lines, so no vector of 16 floats
  // crosses a line, and the packs of four floats on a GPU are aligned.
  const std::int64_t blocks = (info.count + kParamAlignmentFloats - 1) / kParamAlignmentFloats;
  total_floats_ += blocks * kParamAlignmentFloats;
  // Frozen parameters come behind all trained ones. The gradient, the buckets and the update then
  // need only the first part of the array.
  ES_CHECK_MSG(!info.trained || trained_ == params_.size(), info.name);
  if (info.trained) {
    ++trained_;
    trained_floats_ = total_floats_;
  }
  params_.push_back(std::move(info));
  return static_cast<ParamId>(params_.size() - 1);
}

std::int64_t ParamTable::add_stat(StatInfo info) {
  info.offset = stat_floats_;
  stat_floats_ += info.count;
  stats_.push_back(std::move(info));
  return stats_.back().offset;
}

std::int64_t ParamTable::add_mean(std::string name, std::int64_t channels) {
  return add_stat({.name = std::move(name), .torch_shape = {channels}, .count = channels});
}

std::int64_t ParamTable::add_variance(std::string name, std::int64_t channels) {
  return add_stat({.name = std::move(name),
                   .torch_shape = {channels},
                   .count = channels,
                   .initial = 1.0F,
                   .is_variance = true});
}

std::int64_t ParamTable::add_state(std::string name, std::vector<std::int64_t> torch_shape,
                                   std::string dtype) {
  std::int64_t count = 1;
  for (const std::int64_t extent : torch_shape) count *= extent;
  return add_stat({.name = std::move(name),
                   .torch_shape = std::move(torch_shape),
                   .count = count,
                   .dtype = std::move(dtype)});
}

const ParamInfo& ParamTable::operator[](ParamId id) const {
  ES_CHECK(id >= 0 && id < static_cast<ParamId>(params_.size()));
  return params_[static_cast<std::size_t>(id)];
}

std::int64_t ParamTable::parameter_count() const {
  std::int64_t count = 0;
  for (const ParamInfo& p : params_) count += p.count;
  return count;
}

std::int64_t ParamTable::padded_end(ParamId id) const {
  const auto next = static_cast<std::size_t>(id) + 1;
  return next < params_.size() ? params_[next].offset : total_floats_;
}

}  // namespace es::gpu
