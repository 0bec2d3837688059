#include "gpu/import/longs.h"

#include "gpu/graph/emit.h"

namespace es::gpu {
namespace {

std::int32_t low_of(std::int64_t value) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
}

Long choose(GraphBuilder& b, const std::string& name, TensorId test, const Long& x, const Long& y) {
  return {b.where(name, test, x.low, y.low), b.where(name, test, x.high, y.high)};
}

// Applies the same move to both words.
template <class Move>
Long moved(const Long& x, Move&& move) {
  return {move(x.low), move(x.high)};
}

using Combine = Long (*)(GraphBuilder&, const std::string&, const Long&, const Long&);

// Each step combines the two halves of the axis, as GraphBuilder does with integers of 32 bits. The
// halves of an odd number share the middle element, but those of a sum, where a 0 completes the
// second half.
Long halved(GraphBuilder& b, const std::string& name, Long x, int axis, Combine combine,
            bool once) {
  for (std::int64_t count = b.shape(x.low)[axis]; !b.failed() && count > 1;) {
    const std::int64_t half = (count + 1) / 2;
    const bool pads = once && count % 2 == 1;
    const Long first = moved(x, [&](TensorId t) { return b.slice(name, t, axis, 0, half); });
    const Long last = moved(x, [&](TensorId t) {
      if (!pads) return b.slice(name, t, axis, count - half, half);
      return b.pad(name, b.slice(name, t, axis, half, half - 1), axis, 0, 1);
    });
    x = combine(b, name, first, last);
    count = half;
  }
  return x;
}

}  // namespace

Long long_constant(GraphBuilder& b, const std::string& name, std::int64_t value) {
  return {b.constant_ids(name, {1}, {low_of(value)}),
          b.constant_ids(name, {1}, {low_of(value >> 32)})};
}

Long long_from_int(GraphBuilder& b, const std::string& name, TensorId x) {
  if (b.failed()) return {0, 0};
  const auto [least, most] = b.range(x);
  const TensorId places = b.constant_ids(name, {1}, {31});
  const TensorId high = b.words(name, ElementOp::kShiftRightInt, {x, places});
  b.set_range(high, least < 0 ? -1 : 0, most < 0 ? -1 : 0);
  return {x, high};
}

Long long_from_truth(GraphBuilder& b, const std::string& name, TensorId x) {
  const TensorId one = b.constant_ids(name, {1}, {1}), zero = b.constant_ids(name, {1}, {0});
  return {b.where(name, x, one, zero), b.where(name, x, zero, zero)};
}

Long long_from_float(GraphBuilder& b, const std::string& name, TensorId x) {
  return {b.words(name, ElementOp::kToLow, {x}), b.words(name, ElementOp::kToHigh, {x})};
}

TensorId float_from_long(GraphBuilder& b, const std::string& name, const Long& x) {
  return b.words(name, ElementOp::kFromLong, {x.low, x.high});
}

Long long_words(GraphBuilder& b, const std::string& name, ElementOp low, ElementOp high,
                const Long& x, const Long& y) {
  const auto of = [&](ElementOp op) {
    return operands_of(op) == 2 ? b.words(name, op, {x.low, y.low})
                                : b.words(name, op, {x.low, x.high, y.low, y.high});
  };
  return {of(low), of(high)};
}

Long long_sum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  return long_words(b, name, ElementOp::kAddInt, ElementOp::kAddHigh, x, y);
}

TensorId long_less(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  return b.words(name, ElementOp::kLessLong, {x.low, x.high, y.low, y.high});
}

TensorId long_equal(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  const TensorId low = b.binary(name, Function::kEqual, x.low, y.low);
  return b.binary(name, Function::kAnd, low, b.binary(name, Function::kEqual, x.high, y.high));
}

Long long_maximum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  return choose(b, name, long_less(b, name, x, y), y, x);
}

Long long_minimum(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  return choose(b, name, long_less(b, name, y, x), y, x);
}

Long long_reduce(GraphBuilder& b, const std::string& name, Reduction kind, Long x,
                 const std::vector<int>& axes, bool keepdim) {
  if (b.failed()) return {0, 0};
  const Combine combine = kind == Reduction::kSum   ? long_sum
                          : kind == Reduction::kMax ? long_maximum
                                                    : long_minimum;
  const TensorShape shape = b.shape(x.low);
  AxisSet set = 0;
  for (const int axis : axes) {
    x = halved(b, name, x, axis, combine, kind == Reduction::kSum);
    set |= 1U << axis;
  }
  const TensorShape to = reduced_shape(shape, set, keepdim);
  return moved(x, [&](TensorId t) { return b.reshape(name, t, to); });
}

// After step k an element is the sum of the last 2^k ones, as for integers of 32 bits.
Long long_cumsum(GraphBuilder& b, const std::string& name, Long x, int axis) {
  if (b.failed()) return {0, 0};
  const std::int64_t count = b.shape(x.low)[axis];
  for (std::int64_t distance = 1; distance < count; distance *= 2)
    x = long_sum(b, name, x, moved(x, [&](TensorId t) {
                   return b.pad(name, b.slice(name, t, axis, 0, count - distance), axis, distance,
                                0);
                 }));
  return x;
}

}  // namespace es::gpu
