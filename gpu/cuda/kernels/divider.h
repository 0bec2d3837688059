#pragma once
// Divides by a number that is known when a kernel is queued, without a division on the device: a
// multiplication with a magic number and a shift.
#include <cstdint>

#include "gpu/canonical/on_device.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {

class Divider {
 public:
  Divider() = default;
  // REQUIRES: 0 < divisor < 2^31.
  explicit Divider(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    ES_CHECK(divisor > 0 && divisor < (std::int64_t{1} << 31));
    while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - divisor_;
    magic_ = static_cast<std::uint32_t>((excess << 32) / divisor_ + 1);
  }

  struct Parts {
    std::uint32_t quotient, rest;
  };
  // REQUIRES: n < 2^31.
  ES_HD Parts operator()(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>(std::uint64_t{magic_} * n >> 32);
    const std::uint32_t quotient = (high + n) >> shift_;
    return {quotient, n - quotient * divisor_};
  }
  ES_HD std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1, magic_ = 1, shift_ = 0;
};

}  // namespace es::gpu::cuda
