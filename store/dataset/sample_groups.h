#pragma once
// Groups of training samples, of each of which an epoch uses one sample.
//
// Every sample has a key, and the samples with one key are a group. An epoch has a permutation of
// the groups, in place of one of the samples. A group of n samples uses them in turns of n epochs:
// in the epochs tn to tn + n - 1 each sample once, in an order that is new in every turn. So
// samples are drawn without replacement, and no two samples of an epoch have the same key.
//
// The groups are numbered by the order of their keys. Sample j of group g in epoch e is element
// e mod n of the KeyedPermutation of n whose key are the first two words of Philox at the counter
// g, under the key of DataStream::kGroupTurn, the seed and the turn e / n. The permutation of the
// groups is the one that samples would have, for as many samples as groups.
//
// Immutable and thread-safe. It has 8 bytes for each sample and for each group.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

class SampleGroups {
 public:
  // Reads a file .npy with one axis of `samples` integers of the types u1, u2, u4, i4 or i8.
  // Errors: those of NpyFile; usage, naming the file and what is allowed.
  static Result<SampleGroups> read(const std::filesystem::path& file, std::uint64_t samples);
  // REQUIRES: at least one key.
  explicit SampleGroups(std::span<const std::int64_t> keys);

  std::uint64_t samples() const { return members_.size(); }
  std::uint64_t groups() const { return ends_.size(); }
  // The sample that group g uses in an epoch. REQUIRES: group < groups().
  std::uint64_t member(std::uint64_t seed, std::uint64_t epoch, std::uint64_t group) const;

 private:
  std::vector<std::uint64_t> members_;  // the samples, group by group, in ascending order
  std::vector<std::uint64_t> ends_;     // of each group in members_
};

}  // namespace es::store
