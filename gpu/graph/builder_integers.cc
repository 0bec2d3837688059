// GraphBuilder: integers that are counted, limited and added. Additions are modulo 2^32, so their
// order does not matter, and sums are built from element-wise additions.
#include <algorithm>
#include <numeric>

#include "gpu/graph/builder.h"
#include "gpu/graph/emit.h"
#include "gpu/graph/integer_range.h"

namespace es::gpu {
namespace {

// A model stores at most this many numbers for a count. Longer counts are computed as first * 4096
// + second from two stored ones, so the memory of the constants does not grow with the count.
constexpr std::int64_t kDigit = 4096;

}  // namespace

// The range of sums of at least `fewest` and at most `most` elements of x. A negative minimum is
// lowest with the most summands, and a positive one with the fewest; the maximum likewise. A range
// that exceeds 32 bits means that the sum may wrap around, and then every integer is possible.
void GraphBuilder::set_sum_range(TensorId x, std::int64_t fewest, std::int64_t most, TensorId y) {
  if (failed()) return;
  const std::int64_t least = note(x).low, largest = note(x).high;
  std::int64_t low = least * (least < 0 ? most : fewest);
  std::int64_t high = largest * (largest < 0 ? fewest : most);
  if (low < kIntLow || high > kIntHigh) {
    low = kIntLow;
    high = kIntHigh;
  }
  note(y).low = static_cast<std::int32_t>(low);
  note(y).high = static_cast<std::int32_t>(high);
}

TensorId GraphBuilder::numbers(const std::string& name, std::int64_t count) {
  if (failed()) return 0;
  if (count < 1 || count > kIntHigh)
    return fail("numbers", name, std::to_string(count) + " numbers: allowed is 1 to 2^31 - 1");
  if (count <= kDigit) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return constant_ids(name, {count}, std::move(values));
  }
  const std::int64_t rows = (count + kDigit - 1) / kDigit;
  // The call for the rows may itself need two digits, so the recursion handles any count up to 2^31
  // - 1. The last row can be longer than the count, and the slice cuts it.
  const TensorId first = binary(name, Function::kMul, reshape(name, numbers(name, rows), {rows, 1}),
                                constant_ids(name, {1}, {static_cast<std::int32_t>(kDigit)}));
  const TensorId all = binary(name, Function::kAdd, first, numbers(name, kDigit));
  const TensorId y = slice(name, reshape(name, all, {rows * kDigit}), 0, 0, count);
  if (failed()) return 0;
  // The ranges of the digits would allow numbers up to rows * 4096 - 1, which the slice has
  // removed.
  note(y).low = 0;
  note(y).high = static_cast<std::int32_t>(count - 1);
  return y;
}

// A bound that the range already keeps costs no operator.
TensorId GraphBuilder::limit(const std::string& name, TensorId x, std::int32_t low,
                             std::int32_t high) {
  if (failed()) return 0;
  const Note known = note(x);
  const auto at = [&](std::int32_t value) { return constant_ids(name, {1}, {value}); };
  if (known.low < low) x = integer_maximum(name, x, at(low));
  return known.high > high ? integer_minimum(name, x, at(high)) : x;
}

// Each step adds the element at twice the distance of the step before, so after step k an element
// is the sum of the last 2^k elements (Hillis and Steele 1986). This needs log2(count) passes of
// element-wise additions and no kernel of its own. Integers wrap around, so the order of additions
// does not matter; fp32 numbers have the chain of kRunningSum instead.
TensorId GraphBuilder::integer_cumsum(const std::string& name, TensorId x, int axis) {
  if (failed() || !valid_axis("cumsum", name, x, axis)) return 0;
  const std::int64_t count = graph_.shape(x)[axis];
  TensorId y = x;
  for (std::int64_t distance = 1; distance < count; distance *= 2) {
    const TensorId kept = slice(name, y, axis, 0, count - distance);
    y = binary(name, Function::kAdd, y, pad(name, kept, axis, distance, 0));
  }
  if (y != x) set_sum_range(x, 1, count, y);
  return y;
}

// Each step combines the two halves of the axis. The halves of an odd number share the middle
// element, which a maximum or minimum may see twice. A sum may not (`once`), so there a 0 completes
// the second half.
TensorId GraphBuilder::halve(const std::string& name, TensorId x, int axis, Combine combine,
                             bool once) {
  for (std::int64_t count = graph_.shape(x)[axis]; !failed() && count > 1;) {
    const std::int64_t half = (count + 1) / 2;
    const TensorId first = slice(name, x, axis, 0, half);
    const bool pads = once && count % 2 == 1;
    TensorId last = slice(name, x, axis, pads ? half : count - half, pads ? half - 1 : half);
    if (pads) last = pad(name, last, axis, 0, 1);
    x = (this->*combine)(name, first, last);
    count = half;
  }
  return x;
}

TensorId GraphBuilder::integer_reduce(const std::string& name, Reduction kind, TensorId x,
                                      const std::vector<int>& axes, bool keepdim) {
  const std::optional<std::uint32_t> set =
      failed() ? std::nullopt : axis_set("reduce", name, x, axes);
  if (!set) return 0;
  const bool sum = kind == Reduction::kSum;
  if (!sum && kind != Reduction::kMax && kind != Reduction::kMin)
    return fail("reduce", name, "integers have sums, maxima and minima only");
  const TensorShape shape = graph_.shape(x);
  const Combine combine = sum                       ? &GraphBuilder::integer_sum
                          : kind == Reduction::kMax ? &GraphBuilder::integer_maximum
                                                    : &GraphBuilder::integer_minimum;
  TensorId y = x;
  for (const int axis : axes) y = halve(name, y, axis, combine, sum);
  y = reshape(name, y, reduced_shape(shape, *set, keepdim));
  const std::int64_t count = extent_of(shape, *set);
  if (count > 1 && sum) set_sum_range(x, count, count, y);
  return y;
}

TensorId GraphBuilder::integer_sum(const std::string& name, TensorId a, TensorId b) {
  return binary(name, Function::kAdd, a, b);
}
TensorId GraphBuilder::integer_maximum(const std::string& name, TensorId a, TensorId b) {
  const TensorId y = where(name, binary(name, Function::kLess, a, b), b, a);
  if (!failed()) note(y).low = std::max(note(a).low, note(b).low);
  return y;
}
TensorId GraphBuilder::integer_minimum(const std::string& name, TensorId a, TensorId b) {
  const TensorId y = where(name, binary(name, Function::kLess, b, a), b, a);
  if (!failed()) note(y).high = std::min(note(a).high, note(b).high);
  return y;
}

}  // namespace es::gpu
