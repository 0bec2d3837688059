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
#include "store/dataset/sources.h"

#include "store/dataset/keyed_permutation.h"
#include "store/dataset/layouts.h"
#include "store/dataset/ratings/interactions.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

void write_pair(const SampleBlock& block, std::uint64_t position, std::uint32_t user,
                std::uint32_t item, bool rated) {
  block.set_i32(rating_field::kUser, position, 0, static_cast<std::int32_t>(user));
  block.set_i32(rating_field::kItem, position, 0, static_cast<std::int32_t>(item));
  block.field(rating_field::kLabel, position)[0] = rated ? 1.0f : 0.0f;
}

class RatingsSource final : public RecordSource {
 public:
  RatingsSource(const JobSpec& spec, Interactions interactions)
      : RecordSource({.layout = rating_layout(interactions.users(), interactions.items()),
                      .train_count =
                          interactions.trained().size() * (std::uint64_t{spec.data.negatives} + 1),
                      .eval_count = interactions.held_out().size() * kEvalGroup,
                      .eval_group = kEvalGroup}),
        seed_(spec.seed),
        per_rating_(std::uint64_t{spec.data.negatives} + 1),
        interactions_(std::move(interactions)) {}

 private:
  Status write(Half half, std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch&) const override {
    if (half == Half::kTrain)
      write_train(epoch, index, block, position);
    else
      write_eval(index, block, position);
    return {};
  }

  void write_train(std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
                   std::uint64_t position) const {
    const Interactions::Pair& rated = interactions_.trained()[index / per_rating_];
    // Each rating is followed by its negatives, which are drawn anew in each epoch.
    if (index % per_rating_ == 0) return write_pair(block, position, rated.user, rated.item, true);
    const auto words =
        philox4x32_10(index_counter(index), stream_key(seed_, DataStream::kNegatives, epoch));
    const std::uint32_t number = below(interactions_.untrained_count(rated.user), words[0]);
    write_pair(block, position, rated.user, interactions_.untrained(rated.user, number), false);
  }

  void write_eval(std::uint64_t index, const SampleBlock& block, std::uint64_t position) const {
    const Interactions::Pair& rated = interactions_.held_out()[index / kEvalGroup];
    const std::uint64_t i = index % kEvalGroup;
    if (i == 0) return write_pair(block, position, rated.user, rated.item, true);
    // A permutation, so that the negatives of a user are different items. The key has no epoch: an
    // evaluation has the same items each time.
    const KeyedPermutation order(interactions_.unrated_count(rated.user),
                                 stream_key(seed_, DataStream::kEvalNegatives, rated.user));
    const auto number = static_cast<std::uint32_t>(order(i - 1));
    write_pair(block, position, rated.user, interactions_.unrated(rated, number), false);
  }

  std::uint64_t seed_;
  std::uint64_t per_rating_;
  Interactions interactions_;
};

class SyntheticRatingsSource final : public RecordSource {
 public:
  explicit SyntheticRatingsSource(const DataSpec& spec)
      : RecordSource({.layout = rating_layout(spec.users, spec.items),
                      .train_count = spec.samples,
                      .eval_count = spec.eval_samples / kEvalGroup * kEvalGroup,
                      .eval_group = kEvalGroup}),
        users_(spec.users),
        items_(spec.items),
        per_rating_(std::uint64_t{spec.negatives} + 1) {}

 private:
  static constexpr int kMarks = 8, kShared = 6;
  static constexpr std::uint32_t kDraws = 32;  // of four candidates each
  static constexpr std::uint32_t kUserBlock = 0xffffffff;

  static constexpr PhiloxKey kUserKey = stream_key(0, DataStream::kSyntheticFactors, 0);
  static constexpr PhiloxKey kItemKey = stream_key(0, DataStream::kSyntheticFactors, 1);

  // The hidden marks of a user or an item, one bit each.
  static std::uint32_t marks(std::uint32_t id, PhiloxKey key) {
    return philox4x32_10({id, 0, 0, 0}, key)[0] >> (32 - kMarks);
  }

  // The first drawn item that the user likes, or does not like; the last draw if there is no such
  // item.
  std::uint32_t draw_item(std::uint32_t user_marks, bool liked, std::uint64_t index,
                          PhiloxKey key) const {
    std::uint32_t item = 0;
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
      for (const std::uint32_t word : philox4x32_10(index_counter(index, draw), key)) {
        item = below(items_, word);
        const int shared = kMarks - std::popcount(user_marks ^ marks(item, kItemKey));
        if ((shared >= kShared) == liked) return item;
      }
    }
    return item;
  }

  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch&) const override {
    const bool train = half == Half::kTrain;
    const PhiloxKey key = stream_key(0, DataStream::kSyntheticRatings, train ? 0 : 1);
    const std::uint64_t group = index / (train ? per_rating_ : kEvalGroup);
    const bool liked = index % (train ? per_rating_ : kEvalGroup) == 0;
    const std::uint32_t user =
        below(users_, philox4x32_10(index_counter(group, kUserBlock), key)[0]);
    write_pair(block, position, user, draw_item(marks(user, kUserKey), liked, index, key), liked);
    return {};
  }

  std::uint32_t users_, items_;
  std::uint64_t per_rating_;
};

}  // namespace

Result<std::shared_ptr<const SampleSource>> ratings_source(const JobSpec& spec) {
  Result<Ratings> ratings = read_ratings(spec.data.path);
  if (!ratings) return ratings.error();
  Result<Interactions> interactions = Interactions::create(*std::move(ratings));
  if (!interactions)
    return Error{interactions.error().kind, spec.data.path + ": " + interactions.error().message};
  return std::shared_ptr<const SampleSource>(
      std::make_shared<RatingsSource>(spec, *std::move(interactions)));
}

std::shared_ptr<const SampleSource> synthetic_ratings_source(const DataSpec& spec) {
  return std::make_shared<SyntheticRatingsSource>(spec);
}

}  // namespace es::store
