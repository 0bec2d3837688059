#pragma once
// Sums partial results of workers: into a node of the canonical tree, or at level D0 in one chain.
// The order of additions is written here once. The host adds, or a device queues the additions
// (cuda/device_reduction.h).
#include <cstdint>
#include <span>

#include "gpu/canonical/kernels.h"
#include "gpu/est/rank_tree.h"

namespace es::gpu {

// Adds arrays in a memory that it can access.
class Adder {
 public:
  virtual ~Adder() = default;
  // Number of floats that are processed together.
  virtual std::int64_t block_floats() const = 0;
  // Returns the address of the floats [begin, begin + n) of a part: their place, or `scratch` after
  // a copy.
  virtual const float* read(const float* part, std::int64_t begin, std::int64_t n,
                            float* scratch) = 0;
  // y = a + b for n elements. y may be equal to a or b.
  virtual void add(std::int64_t n, const float* a, const float* b, float* y) = 0;
  virtual void copy(std::int64_t n, const float* from, float* to) = 0;
};

// The adder of the host. All parts are in host memory.
class HostAdder final : public Adder {
 public:
  explicit HostAdder(const KernelTable& kernels) : kernels_(kernels) {}
  std::int64_t block_floats() const override;
  const float* read(const float* part, std::int64_t begin, std::int64_t n, float* scratch) override;
  void add(std::int64_t n, const float* a, const float* b, float* y) override;
  void copy(std::int64_t n, const float* from, float* to) override;

 private:
  const KernelTable& kernels_;
};

// A part of the sum for the additions: where the sum over some ranks lies. In order kTree the ranks
// are those of one node of the tree, in order kPerWorker the whole range of a worker.
struct GradientPart {
  RankRange ranks;
  const float* data = nullptr;  // n floats in memory that the adder can read
};

// Returns the number of workspace blocks that reduce_parts() needs; kPerWorker needs only one.
std::int64_t reduce_blocks(std::uint32_t max_p);
// The same as a number of floats, for the host.
std::int64_t reduce_workspace_floats(std::uint32_t max_p);

// Returns whether the parts, in any order, cover every rank of the range exactly once.
bool cover(RankRange range, std::span<const GradientPart> parts);

// Sets out[0..n) to the sum over `ranks`. In order kTree they are those of one node, and `out` may
// be the data of one of the parts. In order kPerWorker the parts are chained in rank order, ((p0 +
// p1) + p2) ...; the function sorts them by rank, and `out` may be the part of rank 0, but no other
// part. The sum is not multiplied by 1/max_p (grad_scale of the update does that). The function
// works block by block, so that on a host everything but the parts and `out` stays in the cache.
// Nothing is allocated. `workspace` has reduce_blocks(max_p) blocks in the adder's memory, in which
// `out` lies too. REQUIRES: cover(ranks, parts).
void reduce_parts(GradientOrder order, std::uint32_t max_p, RankRange ranks,
                  std::span<GradientPart> parts, std::int64_t n, float* out, float* workspace,
                  Adder& adder);

}  // namespace es::gpu
