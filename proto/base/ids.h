#pragma once
// Distinct types for the numbers that must never be mixed up.
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

// Unique name of a job in one head, e.g. "resnet18-3f2a". Letters, digits, '-', '_', '.'.
using JobId = std::string;

// Counter of placements of one job; every message of a step carries it (fencing). 0 = none yet.
using Generation = StrongId<struct GenerationTag, std::uint64_t>;

// Unique number of one worker process, never reused by a head. 0 = not a worker.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;

// Number of completed global steps, which names a version of the parameters: version 0 is the
// initial state, version t+1 is what global step t makes of version t.
using Version = std::uint64_t;

// An EST's rank in [0, max_p). It never changes, wherever the EST runs.
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
