#pragma once
// Where the gradient of one local step goes, and the sums over ESTs that take it over. Planned by
// GradientTree; executed by what runs the step: a CPU in the caller's memory, a device in its own,
// which only finished parts leave.
#include <cstdint>
#include <functional>
#include <span>

#include "gpu/canonical/kernels.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

// A slot is a whole flat gradient. The gradient is written into slots[0]; then, bucket by bucket,
// slots[i] += slots[i - 1] for i = 1, 2, ... What slots.back() has is kept, the others are free.
// Slots that are kept are taken over in the order of a stack: slots[1] is the one kept last.
struct GradientPath {
  std::span<const std::uint32_t> slots;
  // slots.back() has a part: read in host memory, and not changed, until the step is over.
  bool leaves = true;
  // The part is the sum over all ranks, which nobody reads but the update: a device keeps it, and
  // of the slot in host memory only the address is used, by which Engine::apply_update() knows it.
  bool whole = false;
  bool first = false;  // of a step: nothing is kept from before
  // Slots without a part that the step's local steps keep at once, at most.
  std::uint32_t kept_max = 0;
};

struct GradientTarget {
  using SlotAddress = std::function<float*(std::uint32_t slot)>;
  using Inspect = std::function<void(std::uint32_t bucket, float* data)>;

  GradientTarget(GradientPath path, SlotAddress host, Inspect inspect = {});
  // Into this memory (flat layout) and nowhere else; nothing is merged, and slots in use stay as
  // they are.
  GradientTarget(float* alone);  // NOLINT(google-explicit-constructor): a place, as `path` is

  float* last_slot() const { return host(path.slots.back()); }

  GradientPath path;
  // A slot in host memory, 64-byte aligned, the same on every call. Asked for on a CPU: every slot
  // of the path; on a device: the last slot of one that leaves.
  SlotAddress host;
  // Where a device puts a part too, in its own memory; not changed until the step is over. Empty,
  // or gives nullptr: nowhere.
  SlotAddress device;
  // Whether a part is wanted in host memory. REQUIRES: true, or `device` gives a place.
  bool in_host = true;
  // Sees bucket 0, 1, ... of the EST's own gradient in host memory before it is merged, and may
  // change it; a device waits for it. Empty: nobody.
  Inspect inspect;
};

// Merges one bucket, all slots being in host memory.
void merge_on_host(const GradientTarget& target, const Bucket& bucket, const KernelTable& kernels);

}  // namespace es::gpu
