#pragma once
// Samples of recommendation: pairs of a user and an item with label 1 (rated) or 0.
//
// Let n = data.negatives. Training sample s is the rating s / (n + 1) if s mod (n + 1) = 0.
// Otherwise it is an item drawn for the user of that rating, uniformly from the items with which
// the user is not trained. It is drawn by Philox from (seed, epoch, s), so every epoch has other
// ones. Evaluation samples form groups of 100: the held-out item of a user, then 99 different items
// that the user has not rated, drawn once from (seed, user).
//
// synthetic: users and items have 8 hidden marks each. A user likes the items that have at least 6
// marks in common with it (one in seven). A rating is a liked item; the other items of a group are
// not liked. Users and candidates are drawn from the number of the sample alone. There is no seed:
// a number of users and a number of items define one data set. eval_samples is rounded down to
// whole groups of 100.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

inline constexpr std::uint64_t kEvalGroup = 100;

// Error: as read_ratings and Interactions.
Result<std::shared_ptr<const SampleSource>> ratings_source(const JobSpec& spec);
std::shared_ptr<const SampleSource> synthetic_ratings_source(const DataSpec& spec);

}  // namespace es::store
