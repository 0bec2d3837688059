#pragma once
// Distinct types for numbers that must not be confused.
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace es {

template <class Tag, class Rep>
struct StrongId {
  Rep value{};
  auto operator<=>(const StrongId&) const = default;
};

// Unique name of a job in one head, e.g. "resnet18-1-7xcx2yfn". Letters, digits, '-', '_' and '.'.
using JobId = std::string;

// Counts the placements of one job. Every message of a step carries it, so that messages of older
// placements can be dropped (fencing). 0 before the first placement.
using Generation = StrongId<struct GenerationTag, std::uint64_t>;

// Unique number of one worker process, which a head never reuses. 0 means: not a worker.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;

// Number of completed global steps, which names a version of the parameters. Version 0 is the
// initial state, and global step t makes version t + 1 from version t.
using Version = std::uint64_t;

// Rank of an EST in [0, max_p). It never changes, wherever the EST runs.
using VirtualRank = std::uint32_t;

// A contiguous, half-open range of virtual ranks.
struct RankRange {
  VirtualRank begin = 0;
  VirtualRank end = 0;
  std::uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool contains(VirtualRank r) const { return begin <= r && r < end; }
  auto operator<=>(const RankRange&) const = default;
};

}  // namespace es

template <class Tag, class Rep>
struct std::hash<es::StrongId<Tag, Rep>> {
  std::size_t operator()(const es::StrongId<Tag, Rep>& id) const {
    return std::hash<Rep>{}(id.value);
  }
};
