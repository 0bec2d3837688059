#pragma once
// Sums the partial results of all workers: into the root of the canonical tree, or at level D0 in
// one chain. The order is written here once, whoever adds: the host, or a device that queues it
// (cuda/device_reduction.h).
#include <cstdint>
#include <span>

#include "gpu/canonical/kernels.h"
#include "gpu/est/rank_tree.h"

namespace es::gpu {

// What adds, in memory that it can add in.
class Adder {
 public:
  virtual ~Adder() = default;
  // Floats that are worked off together.
  virtual std::int64_t block_floats() const = 0;
  // Floats [begin, begin + n) of a part: where they are, or copied to `scratch`.
  virtual const float* read(const float* part, std::int64_t begin, std::int64_t n,
                            float* scratch) = 0;
  // y = a + b. y may be a or b.
  virtual void add(std::int64_t n, const float* a, const float* b, float* y) = 0;
  virtual void copy(std::int64_t n, const float* from, float* to) = 0;
};

// The host's: all parts are in its memory.
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

struct TreePart {
  TreeNode node;
  const float* data = nullptr;  // n floats, where the adder reads them
};

// Blocks of workspace that reduce_tree needs, and more than reduce_workers does.
std::int64_t reduce_blocks(std::uint32_t max_p);
// The same in floats, for the host.
std::int64_t reduce_tree_workspace_floats(std::uint32_t max_p);

// Whether the parts cover every rank of [0, max_p) exactly once.
bool covers_all_ranks(std::uint32_t max_p, std::span<const TreePart> parts);

// out[0..n) = the root's sum, in the order of the tree whatever the cut into parts; not multiplied
// by 1/max_p (sgd's grad_scale does that). Works block by block, so that on a host everything but
// the parts and `out` stays in cache. `out` may be one of the parts' data. Allocates nothing.
// `workspace`: reduce_blocks(max_p) blocks of the adder's memory, as `out` is.
// REQUIRES: covers_all_ranks(max_p, parts).
void reduce_tree(std::uint32_t max_p, std::span<const TreePart> parts, std::int64_t n, float* out,
                 float* workspace, Adder& adder);
inline void reduce_tree(std::uint32_t max_p, std::span<const TreePart> parts, std::int64_t n,
                        float* out, float* workspace, const KernelTable& kernels) {
  HostAdder host(kernels);
  reduce_tree(max_p, parts, n, out, workspace, host);
}

// Order kPerWorker: the sum of one worker's range.
struct WorkerPart {
  RankRange ranks;
  const float* data = nullptr;  // n floats, where the adder reads them
};

// Whether the parts, in any order, cover every rank of [0, max_p) exactly once.
bool covers_all_ranks(std::uint32_t max_p, std::span<const WorkerPart> parts);

// out[0..n) = the parts chained in rank order, ((p0 + p1) + p2) ... `parts` is sorted by rank on
// the way. `out` may be the part of rank 0, no other. Allocates nothing. `workspace`: one block of
// the adder's memory; the host needs none. REQUIRES: covers_all_ranks(max_p, parts).
void reduce_workers(std::uint32_t max_p, std::span<WorkerPart> parts, std::int64_t n, float* out,
                    float* workspace, Adder& adder);
inline void reduce_workers(std::uint32_t max_p, std::span<WorkerPart> parts, std::int64_t n,
                           float* out, const KernelTable& kernels) {
  HostAdder host(kernels);
  reduce_workers(max_p, parts, n, out, nullptr, host);
}

}  // namespace es::gpu
