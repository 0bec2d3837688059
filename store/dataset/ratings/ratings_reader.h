#pragma once
// Reads ratings as MovieLens publishes them. Each line has a user, an item, a rating and a time:
//
//   u.data       fields divided by one tab (MovieLens 100K)
//   ratings.dat  fields divided by "::" (1M, 10M)
//   ratings.csv  fields divided by a comma, after the line "userId,movieId,rating,timestamp" (20M
//   on;
//                the line may be absent)
//
// Users and items are whole numbers, which become 0, 1, ... in ascending order. The rating must be
// a number; its value is not used: that a user rated an item is what is learned (implicit
// feedback). The time is a whole number of seconds.
#include <cstdint>
#include <filesystem>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint64_t kRatingsMax = 1'000'000'000;

struct Rating {
  std::uint32_t user = 0;
  std::uint32_t item = 0;
  std::int64_t time = 0;
  bool operator==(const Rating&) const = default;
};

struct Ratings {
  std::uint32_t users = 0;
  std::uint32_t items = 0;
  std::vector<Rating> rows;  // in the order of the file; at least one
};

// `path`: a file whose first line tells the kind, or a directory that holds one of the names above,
// looked for in this order. Errors name file, line, field and what is allowed: not found;
// usage (a field that is no number, too few or many fields, too many rows, none at all).
Result<Ratings> read_ratings(const std::filesystem::path& path);

}  // namespace es::store
