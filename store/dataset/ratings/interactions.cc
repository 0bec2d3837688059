#include "store/dataset/ratings/interactions.h"

#include <algorithm>
#include <string>

#include "proto/base/check.h"

namespace es::store {
namespace {

// Returns how many of the pairs have an item below the item that has number `number` among the
// items that are not in `pairs`. It is a binary search, because pairs[i].item - i counts the other
// items before pair i.
std::uint32_t skipped(std::span<const Interactions::Pair> pairs, std::uint32_t number) {
  std::size_t low = 0, high = pairs.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (pairs[middle].item - middle <= number)
      low = middle + 1;
    else
      high = middle;
  }
  return static_cast<std::uint32_t>(low);
}

}  // namespace

std::span<const Interactions::Pair> Interactions::of(std::uint32_t user) const {
  return std::span(trained_).subspan(begins_[user], begins_[user + 1] - begins_[user]);
}

std::uint32_t Interactions::untrained_count(std::uint32_t user) const {
  return items_ - static_cast<std::uint32_t>(of(user).size());
}

std::uint32_t Interactions::untrained(std::uint32_t user, std::uint32_t number) const {
  ES_CHECK(number < untrained_count(user));
  return number + skipped(of(user), number);
}

std::uint32_t Interactions::unrated(const Pair& held_out, std::uint32_t number) const {
  ES_CHECK(number < unrated_count(held_out.user));
  const std::uint32_t item = untrained(held_out.user, number);
  // The held-out item is not among the trained ones, so it is passed over here.
  return item < held_out.item ? item : untrained(held_out.user, number + 1);
}

// Adds the ratings of one user, which are ordered by time.
void Interactions::add_user(std::span<const Rating> by_time) {
  const std::uint32_t user = by_time.front().user, last = by_time.back().item;
  std::vector<Pair> pairs;
  for (const Rating& rating : by_time) pairs.push_back({user, rating.item});
  std::ranges::sort(pairs, {}, &Pair::item);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  // The last rated item is held out for evaluation, unless it is the only one of the user.
  if (pairs.size() > 1) {
    std::erase(pairs, Pair{user, last});
    held_out_.push_back({user, last});
  }
  trained_.insert(trained_.end(), pairs.begin(), pairs.end());
  begins_.push_back(trained_.size());
}

// If one user can be evaluated, there are enough items to draw a negative for every user.
Status Interactions::check_negatives() const {
  if (held_out_.empty())
    return usage_error(
        "users who have rated two items or more = 0: allowed is at least 1, which evaluation "
        "needs");
  for (const Pair& pair : held_out_)
    if (untrained_count(pair.user) < kEvalNegatives + 1)
      return usage_error(
          "user number " + std::to_string(pair.user) + " (in ascending order, from 0)" +
          ": items that it has not rated = " + std::to_string(unrated_count(pair.user)) +
          ": allowed is at least " + std::to_string(kEvalNegatives) + ", which evaluation draws");
  return {};
}

Result<Interactions> Interactions::create(Ratings ratings) {
  std::vector<Rating>& rows = ratings.rows;
  // Stable: of ratings with equal times the later row counts as the later one.
  std::ranges::stable_sort(rows, [](const Rating& a, const Rating& b) {
    return a.user != b.user ? a.user < b.user : a.time < b.time;
  });
  Interactions result;
  result.users_ = ratings.users;
  result.items_ = ratings.items;
  result.begins_.push_back(0);
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    while (end < rows.size() && rows[end].user == rows[begin].user) ++end;
    result.add_user(std::span(rows).subspan(begin, end - begin));
    begin = end;
  }
  ES_RETURN_IF_ERROR(result.check_negatives());
  return result;
}

}  // namespace es::store
