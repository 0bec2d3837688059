#pragma once
// Sums the partial results of all workers: into the root of the canonical tree, or at level D0 in
// one chain.
#include <cstdint>
#include <span>

#include "gpu/canonical/kernels.h"
#include "gpu/est/rank_tree.h"

namespace es::gpu {

struct TreePart {
  TreeNode node;
  const float* data = nullptr;  // n floats
};

// Floats of workspace that reduce_tree needs.
std::int64_t reduce_tree_workspace_floats(std::uint32_t max_p);

// Whether the parts cover every rank of [0, max_p) exactly once.
bool covers_all_ranks(std::uint32_t max_p, std::span<const TreePart> parts);

// out[0..n) = the root's sum, in the order of the tree whatever the cut into parts; not multiplied
// by 1/max_p (sgd's grad_scale does that). Works block by block, so that everything but the parts
// and `out` stays in cache. `out` may be one of the parts' data. Allocates nothing.
// REQUIRES: covers_all_ranks(max_p, parts).
void reduce_tree(std::uint32_t max_p, std::span<const TreePart> parts, std::int64_t n, float* out,
                 float* workspace, const KernelTable& kernels);

// Order kPerWorker: the sum of one worker's range.
struct WorkerPart {
  RankRange ranks;
  const float* data = nullptr;  // n floats
};

// Whether the parts, in any order, cover every rank of [0, max_p) exactly once.
bool covers_all_ranks(std::uint32_t max_p, std::span<const WorkerPart> parts);

// out[0..n) = the parts chained in rank order, ((p0 + p1) + p2) ... `parts` is sorted by rank on
// the way. `out` may be the part of rank 0, no other. Allocates nothing. REQUIRES:
// covers_all_ranks(max_p, parts).
void reduce_workers(std::uint32_t max_p, std::span<WorkerPart> parts, std::int64_t n, float* out,
                    const KernelTable& kernels);

}  // namespace es::gpu
