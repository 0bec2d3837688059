#pragma once
// Samples of recommendation: pairs of user and item with label 1 (rated) or 0.
//
// Training sample s, with n = data.negatives: when s mod (n + 1) = 0, the rating s / (n + 1); else
// an item drawn for that rating's user, uniform over the items on which the user is not trained.
// Drawn by Philox from (seed, epoch, s), so every epoch has others. Evaluation samples come in
// groups of 100: the held-out item of a user, then 99 different items that the user has not rated,
// drawn once from (seed, user).
//
// synthetic: users and items have 8 hidden marks each, and a user likes the items that share at
// least 6 of them (one in seven). A rating is a liked item, any other item is not liked; users and
// candidates are drawn from the sample's number alone. There is no seed: one number of users and
// items is one dataset. eval_samples counts to the last whole group of 100.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

inline constexpr std::uint64_t kEvalGroup = 100;

// Error: as read_ratings and Interactions.
Result<std::shared_ptr<const SampleSource>> ratings_source(const JobSpec& spec);
std::shared_ptr<const SampleSource> synthetic_ratings_source(const DataSpec& spec);

}  // namespace es::store
