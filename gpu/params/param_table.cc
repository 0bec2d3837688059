#include "gpu/params/param_table.h"

#include "proto/base/check.h"

namespace es::gpu {

ParamId ParamTable::add(ParamInfo info) {
  info.offset = total_floats_;
  info.count = info.order.outer * info.order.spatial * info.order.channels;
  const std::int64_t blocks = (info.count + kParamAlignmentFloats - 1) / kParamAlignmentFloats;
  total_floats_ += blocks * kParamAlignmentFloats;
  params_.push_back(std::move(info));
  return static_cast<ParamId>(params_.size() - 1);
}

std::int64_t ParamTable::add_stat(std::string name, std::int64_t channels, float initial) {
  stats_.push_back({std::move(name), stat_floats_, channels, initial});
  stat_floats_ += channels;
  return stats_.back().offset;
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
