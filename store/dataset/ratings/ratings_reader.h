#pragma once
// Reads ratings in the formats of MovieLens. Each line has a user, an item, a rating and a time:
//
//   u.data       fields separated by one tab (MovieLens 100K)
//   ratings.dat  fields separated by "::" (1M, 10M)
//   ratings.csv  fields separated by a comma, after the line "userId,movieId,rating,timestamp"
//                (20M and later; that line may be missing)
//
// Users and items are whole numbers, which become 0, 1, ... in ascending order. The rating must be
// a number, but its value is not used: the model learns that a user rated an item (implicit
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

// `path` is a file whose first line tells its kind, or a directory that contains one of the names
// above, searched in this order. Errors name the file, the line, the field and what is allowed: not
// found; usage (a field is not a number, too few or too many fields, too many rows, no row).
Result<Ratings> read_ratings(const std::filesystem::path& path);

}  // namespace es::store
