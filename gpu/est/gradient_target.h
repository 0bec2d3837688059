#pragma once
// Describes where the gradient of one local step goes and which sums over ESTs it is merged into.
// GradientTree plans it. The runner of the step executes it: a CPU in the caller's memory, a device
// in its own memory, from which only finished parts leave.
#include <cstdint>
#include <functional>
#include <span>

#include "gpu/canonical/kernels.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

// A slot is memory for a whole flat gradient. The gradient is written into slots[0]. Then, bucket
// by bucket, slots[i] += slots[i - 1] for i = 1, 2, ... The contents of slots.back() are kept, and
// the other slots become free. Kept slots are taken over in the order of a stack: slots[1] is the
// slot that was kept last.
struct GradientPath {
  std::span<const std::uint32_t> slots;
  // Whether slots.back() contains a finished part. It is then read in host memory and does not
  // change until the step is over.
  bool leaves = true;
  // Whether the part is the sum over all ranks, which only the update reads. A device then keeps
  // the sum and uses only the address of the slot in host memory; Engine::apply_update() recognises
  // the sum by this address.
  bool whole = false;
  bool first = false;  // the first rank of a step: no slot is kept from before
  // Largest number of slots without a part that the local steps of this step keep at one time.
  std::uint32_t kept_max = 0;
};

struct GradientTarget {
  using SlotAddress = std::function<float*(std::uint32_t slot)>;
  using Inspect = std::function<void(std::uint32_t bucket, float* data)>;

  GradientTarget(GradientPath path, SlotAddress host, Inspect inspect = {});
  // The gradient goes into this memory (flat layout) and nowhere else. Nothing is merged, and slots
  // that are in use do not change.
  GradientTarget(float* alone);  // NOLINT(google-explicit-constructor): a place, as `path` is

  float* last_slot() const { return host(path.slots.back()); }

  GradientPath path;
  // Returns a slot in host memory, aligned to 64 bytes; every call returns the same address. A CPU
  // asks for every slot of the path. A device asks only for the last slot of a path that leaves.
  SlotAddress host;
  // Returns the place in the device's memory into which the device also copies a part. The part
  // does not change there until the step is over. Empty, or a result of nullptr: there is no such
  // place.
  SlotAddress device;
  // Whether a part is needed in host memory. REQUIRES: true, or `device` returns a place.
  bool in_host = true;
  // Is called with the buckets 0, 1, ... of the EST's own gradient in host memory before they are
  // merged, and may change them. A device waits for the call. Empty: it is not called.
  Inspect inspect;
};

// Merges one bucket along its path. All slots are in host memory.
void merge_on_host(const GradientTarget& target, const Bucket& bucket, const KernelTable& kernels);

}  // namespace es::gpu
