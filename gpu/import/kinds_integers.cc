// Kinds of integers only: quotients, bits, shifts, and what must be inside a range.
#include <algorithm>
#include <bit>

#include "gpu/graph/integer_range.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// --- Shape rules.

Outputs integer_outputs(const NodeView& node) {
  if (node.in(0).type != node.in(1).type)
    return usage_error("its inputs are " + value_text(node.in(0)) + " and " +
                       value_text(node.in(1)) + ": allowed is one type");
  const Result<TensorShape> shape = broadcast(node.shape(0), node.shape(1));
  if (!shape) return shape.error();
  return one_output(node.in().type, *shape);
}

Outputs narrow_outputs(const NodeView& node) {
  if (node.integer("low") > node.integer("high"))
    return usage_error("low = " + std::to_string(node.integer("low")) +
                       ": allowed is at most high = " + std::to_string(node.integer("high")));
  return one_output(ValueType::kI32, node.shape());
}

// --- The range of a result, from those of its operands.

using Range = std::pair<std::int32_t, std::int32_t>;
using RangeRule = Range (*)(Range, Range);
constexpr Range kAny{kIntLow, kIntHigh};

Range quotient_range(Range a, Range b) {
  if (b.first < 1) return kAny;
  const auto divided = [](std::int32_t x, std::int32_t by) {
    return x / by - (x % by < 0 ? 1 : 0);
  };
  return {divided(a.first, a.first < 0 ? b.first : b.second),
          divided(a.second, a.second < 0 ? b.second : b.first)};
}
Range remainder_range(Range a, Range b) {
  if (b.first < 1) return kAny;
  const std::int32_t most = b.second - 1;
  return {0, a.first >= 0 ? std::min(a.second, most) : most};
}
Range and_range(Range a, Range b) {
  if (a.first < 0 && b.first < 0) return kAny;
  if (a.first >= 0 && b.first >= 0) return {0, std::min(a.second, b.second)};
  return {0, a.first >= 0 ? a.second : b.second};
}
// The highest integer with the bits of both.
Range or_range(Range a, Range b) {
  if (a.first < 0 || b.first < 0) return kAny;
  const auto most = static_cast<std::uint32_t>(std::max(a.second, b.second));
  return {0, static_cast<std::int32_t>(std::bit_ceil(std::uint64_t{most} + 1) - 1)};
}
Range shifted_range(Range a, Range) {
  return {std::min(a.first, 0), std::max(a.second, 0)};
}
Range any_range(Range, Range) {
  return kAny;
}

// --- Lowering.

// Whether the integers may be 0, by what is known of a word of them.
bool may_be_zero(Range word) {
  return word.first <= 0 && word.second >= 0;
}

// Whether all are in [0, 2^31).
bool is_short(GraphBuilder& b, const Long& x) {
  return b.range(x.high) == Range{0, 0} && b.range(x.low).first >= 0;
}

// An operation of a low and a high word, and its instruction for integers of 32 bits.
struct Instructions {
  ElementOp short_one, low, high;
  RangeRule range;
  bool divides = false;
};

constexpr Instructions kDivides{ElementOp::kDivideInt, ElementOp::kDivideLow,
                                ElementOp::kDivideHigh, quotient_range, true};
constexpr Instructions kRemains{ElementOp::kRemainderInt, ElementOp::kRemainderLow,
                                ElementOp::kRemainderHigh, remainder_range, true};
constexpr Instructions kAnds{ElementOp::kAndInt, ElementOp::kAndInt, ElementOp::kAndInt, and_range};
constexpr Instructions kOrs{ElementOp::kOrInt, ElementOp::kOrInt, ElementOp::kOrInt, or_range};
constexpr Instructions kXors{ElementOp::kXorInt, ElementOp::kXorInt, ElementOp::kXorInt, or_range};
constexpr Instructions kLeft{ElementOp::kShiftLeftInt, ElementOp::kShiftLeftLow,
                             ElementOp::kShiftLeftHigh, any_range};
constexpr Instructions kRight{ElementOp::kShiftRightInt, ElementOp::kShiftRightLow,
                              ElementOp::kShiftRightHigh, shifted_range};

template <const Instructions& kOf>
void lower_short(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const AxisOrder order = l.common_order(node);
  const TensorId x = l.operand(node, 0, order), y = l.operand(node, 1, order);
  if (b.failed()) return;
  if (kOf.divides && may_be_zero(b.range(y)))
    l.refuse_if(name, b.binary(name, Function::kEqual, y, b.constant_ids(name, {1}, {0})));
  const TensorId result = b.words(name, kOf.short_one, {x, y});
  const Range range = kOf.range(b.range(x), b.range(y));
  b.set_range(result, range.first, range.second);
  l.set(node, result, order);
}

// The words of bits depend on one word of each operand, those of the others on both.
template <const Instructions& kOf>
void lower_long(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const AxisOrder order = l.common_order(node);
  const Long x = l.long_operand(node, 0, order), y = l.long_operand(node, 1, order);
  if (b.failed()) return;
  if (kOf.divides && may_be_zero(b.range(y.low)) && may_be_zero(b.range(y.high)))
    l.refuse_if(name, long_equal(b, name, y, long_constant(b, name, 0)));
  Long result{b.words(name, kOf.low,
                      operands_of(kOf.low) == 2 ? std::vector{x.low, y.low}
                                                : std::vector{x.low, x.high, y.low, y.high}),
              b.words(name, kOf.high,
                      operands_of(kOf.high) == 2 ? std::vector{x.high, y.high}
                                                 : std::vector{x.low, x.high, y.low, y.high})};
  // What is left of any integer by a small divisor or mask is small, too: it may select rows.
  const bool limits = kOf.low == ElementOp::kRemainderLow || kOf.low == ElementOp::kAndInt;
  if (limits && is_short(b, y)) {
    const Range range = kOf.range(kAny, b.range(y.low));
    b.set_range(result.low, range.first, range.second);
    b.set_range(result.high, 0, 0);
  }
  l.set_long(node, result, order);
}

void lower_narrow(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const AxisOrder order = l.stored(node.input(0)).order;
  const std::int64_t low = node.integer("low"), high = node.integer("high");
  const auto limited = [&](TensorId x) {
    return b.limit(name, x, static_cast<std::int32_t>(low), static_cast<std::int32_t>(high));
  };
  if (node.in().type == ValueType::kI32) {
    const TensorId x = l.in(node, 0, order), inside = limited(x);
    if (inside != x) l.refuse_if(name, b.binary(name, Function::kNotEqual, x, inside));
    return l.set(node, inside, order);
  }
  const Long x = l.long_operand(node, 0, order);
  const TensorId below = long_less(b, name, x, long_constant(b, name, low));
  const TensorId above = long_less(b, name, long_constant(b, name, high), x);
  l.refuse_if(name, b.binary(name, Function::kOr, below, above));
  l.set(node, limited(x.low), order);
}

template <const Instructions& kOf>
Kind integer_kind(const char* name, const char* result) {
  return {.name = name,
          .result = result,
          .slots = {{"a", "il"}, {"b", "il"}},
          .outputs = integer_outputs,
          .lower = lower_short<kOf>,
          .lower_long = lower_long<kOf>,
          .format = kModelFormatWithLongs};
}

}  // namespace

std::vector<Kind> integer_kinds() {
  return {
      integer_kind<kDivides>("floor_div", "the quotient, rounded down"),
      integer_kind<kRemains>("remainder", "the rest, with the sign of b"),
      integer_kind<kAnds>("bit_and", "the function of each bit"),
      integer_kind<kOrs>("bit_or", "the function of each bit"),
      integer_kind<kXors>("bit_xor", "the function of each bit"),
      integer_kind<kLeft>("shift_left", "a * 2^b, and 0 beyond the bits of the type"),
      integer_kind<kRight>("shift_right",
                           "a / 2^b, rounded down, also beyond the bits of the type"),
      {.name = "narrow",
       .result = "x as i32",
       .slots = {{"x", "il"}},
       .attributes = {integer("low", kIntLow, kIntHigh), integer("high", kIntLow, kIntHigh)},
       .outputs = narrow_outputs,
       .lower = lower_narrow,
       .lower_long = lower_narrow,
       .format = kModelFormatWithLongs},
  };
}

}  // namespace es::gpu
