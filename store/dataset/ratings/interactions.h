#pragma once
// Which user rated which item, split for training and leave-one-out evaluation (He et al. 2017).
//
// The rating of a user with the largest time is held out for evaluation; of equal times the one
// that comes later in the file. A user with only one item is used for training and not for
// evaluation. An item that a user rated several times counts once, at its latest time. A plain
// value; thread-safe to read.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/ratings/ratings_reader.h"

namespace es::store {

inline constexpr std::uint32_t kEvalNegatives = 99;

class Interactions {
 public:
  // Error (usage): no user has two items, or for some user fewer than kEvalNegatives items remain
  // that it has not rated.
  static Result<Interactions> create(Ratings ratings);

  struct Pair {
    std::uint32_t user = 0, item = 0;
    bool operator==(const Pair&) const = default;
  };

  std::uint32_t users() const { return users_; }
  std::uint32_t items() const { return items_; }
  // Pairs for training, ascending by user and item.
  std::span<const Pair> trained() const { return trained_; }
  // One pair for each evaluated user, ascending by user.
  std::span<const Pair> held_out() const { return held_out_; }

  // The items with which the user is not trained: there are untrained_count, numbered from 0 in
  // ascending order. The held-out item is one of them, because training does not know it.
  std::uint32_t untrained_count(std::uint32_t user) const;
  std::uint32_t untrained(std::uint32_t user, std::uint32_t number) const;

  // The items that the user of a held-out pair has not rated at all.
  std::uint32_t unrated_count(std::uint32_t user) const { return untrained_count(user) - 1; }
  std::uint32_t unrated(const Pair& held_out, std::uint32_t number) const;

 private:
  std::span<const Pair> of(std::uint32_t user) const;
  void add_user(std::span<const Rating> by_time);
  Status check_negatives() const;

  std::uint32_t users_ = 0, items_ = 0;
  std::vector<Pair> trained_;
  std::vector<std::uint64_t> begins_;  // [users + 1]: begin of a user's pairs in trained_
  std::vector<Pair> held_out_;
};

}  // namespace es::store
