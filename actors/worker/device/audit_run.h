#pragma once
// The digest of what an audited local step computes, and a fault for tests that makes a device
// compute wrongly.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/engine/engine.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors::worker {

// Computes the digest of a gradient and of the next context. Buckets are added in the order 0, 1,
// 2, ... as they become ready, before they are merged with other gradients
// (GradientTarget::inspect).
class LocalStepDigest {
 public:
  void add_bucket(const float* data, const gpu::Bucket& bucket) {
    builder_.add(data, static_cast<std::size_t>(bucket.floats()) * sizeof(float));
  }
  Digest finish(const gpu::EstContext& next) {
    const auto context = gpu::encode(next);
    builder_.add(context);
    return builder_.finish();
  }

 private:
  DigestBuilder builder_;
};

// A fault for tests. It flips one bit of the gradient of `rank`, or of every rank, when this device
// computes it: in step `step` only and once, or in every step from `step` on.
struct GradientFault {
  Version step = 0;
  std::optional<VirtualRank> rank{};  // no value means every rank
  bool permanent = false;
  // A fault with a token strikes only if it can remove this file first, so only one of several
  // processes is hit.
  std::filesystem::path token{};
  bool spent = false;  // a fault that strikes only once has struck

  // Flips the bit if the fault is due: in the first number that is not zero, because what is added
  // to a tiny number can absorb it. `bucket` is bucket 0 of the gradient.
  void strike(Version at, VirtualRank of, std::span<float> bucket);
};

// Reads a list of faults, separated by commas, of the form
// "flip-gradient:NODE/TYPE:INDEX:STEP:RANK". "*" in place of NODE/TYPE:INDEX means every device.
// STEP is "7" for a fault that strikes once, or "7+" for one that strikes in every step from 7 on.
// RANK is a number, or "*" for all ranks. Returns the fault for `device` ("NODE/TYPE:INDEX"), if
// there is one, without a token. Error (usage): the text has another form.
Result<std::optional<GradientFault>> parse_fault(std::string_view text, std::string_view device);

}  // namespace es::actors::worker
