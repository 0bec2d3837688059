#include "store/dataset/arrays/lost_differences.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "store/field_error.h"

namespace es::store {
namespace {

constexpr double kNoise = 0x1p-40;  // smaller differences come from rounding in float64
constexpr std::int64_t kPairs = 100;

struct ComparedPairs {
  std::int64_t differ = 0, lost = 0;
  std::size_t first = 0;  // the second number of the first pair that is lost

  void add(double a, double b, std::size_t place) {
    // A comparison with NaN is false, so a NaN differs from nothing.
    if (!(std::abs(a - b) > kNoise * std::max(std::abs(a), std::abs(b)))) return;
    ++differ;
    if (static_cast<float>(a) != static_cast<float>(b)) return;
    if (lost++ == 0) first = place;
  }
};

// An error of a reader repeats no content of a file, so it names the place.
Status check_pairs(const std::string& where, const ComparedPairs& pairs, std::size_t elements) {
  if (pairs.lost * kPairs <= pairs.differ) return {};
  return bad_content(
      where,
      "sample " + std::to_string(pairs.first / elements) + ", element " +
          std::to_string(pairs.first % elements),
      "an f8 number that differs from the one beside it also in f4, in which it is computed; of " +
          std::to_string(pairs.differ) + " such pairs " + std::to_string(pairs.lost) +
          " do not: subtract an offset before, or write f4 if this rounding is right");
}

}  // namespace

Status check_differences(const std::string& where, std::span<const double> numbers,
                         std::size_t elements) {
  for (std::size_t place = 0; place < elements; ++place) {
    ComparedPairs above, beside;
    for (std::size_t i = place; i < numbers.size(); i += elements) {
      if (i >= elements) above.add(numbers[i - elements], numbers[i], i);
      if (place > 0) beside.add(numbers[i - 1], numbers[i], i);
    }
    ES_RETURN_IF_ERROR(check_pairs(where, above, elements));
    ES_RETURN_IF_ERROR(check_pairs(where, beside, elements));
  }
  return {};
}

}  // namespace es::store
