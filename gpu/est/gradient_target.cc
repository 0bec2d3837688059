#include "gpu/est/gradient_target.h"

#include <algorithm>
#include <utility>

namespace es::gpu {
namespace {

// 16 KiB for each operand: the next merge then finds in the cache what the previous one wrote.
constexpr std::int64_t kBlockFloats = 4096;

constexpr std::uint32_t kOnlySlot[] = {0};

// Merges the floats [begin, begin + floats) along the whole path. The left operand of each addition
// is the sum of the lower ranks, which the canonical tree requires.
void merge_block(const GradientTarget& target, std::int64_t begin, std::int64_t floats,
                 const KernelTable& kernels) {
  const std::span<const std::uint32_t> slots = target.path.slots;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    const float* right = target.host(slots[i - 1]) + begin;
    float* left = target.host(slots[i]) + begin;
    kernels.add(floats, left, right, left);
  }
}

}  // namespace

GradientTarget::GradientTarget(GradientPath path, SlotAddress host, Inspect inspect)
    : path(path), host(std::move(host)), inspect(std::move(inspect)) {}

GradientTarget::GradientTarget(float* alone)
    : path{.slots = kOnlySlot}, host([alone](std::uint32_t) { return alone; }) {}

void merge_on_host(const GradientTarget& target, const Bucket& bucket, const KernelTable& kernels) {
  // The gradient was written into the only slot, where it stays.
  if (target.path.slots.size() == 1) return;
  // A block is merged along the whole path before the next block. The operation is element-wise, so
  // the size of a block decides the speed and no bit.
  for (std::int64_t at = bucket.begin; at < bucket.end; at += kBlockFloats)
    merge_block(target, at, std::min(kBlockFloats, bucket.end - at), kernels);
}

}  // namespace es::gpu
