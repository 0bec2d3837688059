#pragma once
// What an audited local step gives, as one digest; and, for tests, a device that computes wrongly.
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpu/engine.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors::worker {

// Digest of a gradient and of the next context. Buckets are added as they become ready, before they
// are merged (GradientTarget::inspect): 0, 1, 2, ...
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

// A fault for tests: from step `step` on, or in that step only and then once, one bit of the
// gradient of `rank`, or of every rank, is flipped when this device computes it.
struct GradientFault {
  Version step = 0;
  std::optional<VirtualRank> rank{};  // none: of every rank
  bool permanent = false;
  bool spent = false;  // a fault of one time that has struck

  // Flips the bit when it is time. REQUIRES: `bucket_data` is bucket 0 of the gradient.
  void strike(Version at, VirtualRank of, float* bucket_data);
};

// Reads "flip-gradient:NODE/TYPE:INDEX:STEP:RANK", with STEP "7" for once and "7+" for ever after,
// and RANK "*" for all; several, separated by commas. Returns the one for `device`
// ("NODE/TYPE:INDEX"), or none.
// Error (usage): another form.
Result<std::optional<GradientFault>> parse_fault(std::string_view text, std::string_view device);

}  // namespace es::actors::worker
