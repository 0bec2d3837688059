// Kinds that reduce axes.
#include <algorithm>

#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

Outputs reduction_outputs(const NodeView& node) {
  const Result<std::vector<int>> axes = axes_of(node.integers("axes"), node.shape().rank(), "axes");
  if (!axes) return axes.error();
  return one_output(node.in().type, reduced(node.shape(), *axes, node.flag("keepdim")));
}

Outputs variance_outputs(const NodeView& node) {
  const Outputs outputs = reduction_outputs(node);
  if (!outputs) return outputs;
  const std::int64_t elements = node.shape().count() / (*outputs)[0].shape.count();
  // The divisor is elements - correction.
  if (elements <= node.integer("correction"))
    return usage_error("correction = " + std::to_string(node.integer("correction")) +
                       ": allowed is less than the " + std::to_string(elements) +
                       " elements of a variance");
  return outputs;
}

Outputs cumsum_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  return same_as_input(node);
}

Outputs arg_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  const int axis = static_cast<int>(node.integer("axis"));
  return one_output(ValueType::kI32, reduced(node.shape(), {axis}, node.flag("keepdim")));
}

// --- Lowering.

// The order of axes in which a reduction is defined: channels last where the channels or the pixels
// of an image are reduced, and logical otherwise. It does not depend on how x is stored, so the
// bits of a sum depend on the program alone and not on the operators in front of it.
AxisOrder reduction_order(int rank, const std::vector<std::int64_t>& axes) {
  const bool image =
      axes == std::vector<std::int64_t>{1} || axes == std::vector<std::int64_t>{2, 3};
  return rank == 4 && image ? channels_last(4) : logical_order(rank);
}

std::vector<std::int64_t> sorted_axes(const NodeView& node) {
  std::vector<std::int64_t> axes = node.integers("axes");
  std::sort(axes.begin(), axes.end());
  return axes;
}

// The axes that are reduced, as places in the order, and the order of what remains.
struct Over {
  AxisOrder order;
  std::vector<int> places;
  AxisOrder kept;
};

Over over(const NodeView& node, const std::vector<std::int64_t>& axes) {
  const int rank = node.shape().rank();
  Over result{.order = reduction_order(rank, axes)};
  const bool keepdim = node.flag("keepdim");
  for (int place = 0; place < rank; ++place) {
    const int axis = result.order[static_cast<std::size_t>(place)];
    const bool gone = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (gone) result.places.push_back(place);
    if (gone && !keepdim) continue;
    // Without the reduced axes, those behind them have lower numbers.
    const auto before = std::count_if(axes.begin(), axes.end(),
                                      [&](std::int64_t a) { return !keepdim && a < axis; });
    result.kept.push_back(axis - static_cast<int>(before));
  }
  return result;
}

// Calls reduce(x, axes of the tensor) and stores its result.
template <class Reduce>
void lower_over(Lowering& l, const NodeView& node, const std::vector<std::int64_t>& axes,
                Reduce&& reduce) {
  const auto [order, places, kept] = over(node, axes);
  const TensorId x = l.in(node, 0, order);
  l.set(node, order.empty() ? x : reduce(x, places, node.flag("keepdim")), kept);
}

template <Reduction kReduction>
void lower_long_reduction(Lowering& l, const NodeView& node) {
  const auto [order, places, kept] = over(node, sorted_axes(node));
  const Long x = l.long_operand(node, 0, order);
  l.set_long(node,
             order.empty() ? x
                           : long_reduce(l.builder(), node.label(), kReduction, x, places,
                                         node.flag("keepdim")),
             kept);
}

template <Reduction kReduction>
void lower_reduction(Lowering& l, const NodeView& node) {
  lower_over(l, node, sorted_axes(node),
             [&](TensorId x, const std::vector<int>& axes, bool keepdim) {
               return l.builder().reduce(node.label(), kReduction, x, axes, keepdim);
             });
}

// The mean of the pixels of an image is a global average, which has an operator with a gradient of
// its own.
void lower_mean(Lowering& l, const NodeView& node) {
  const bool pixels = sorted_axes(node) == std::vector<std::int64_t>{2, 3};
  // A mean of all elements is that of the rows of a loss.
  if (node.out().shape.rank() == 0 && node.shape().rank() > 0)
    l.set_loss_rows(node, {.losses = l.logical(node, 0)});
  if (node.shape().rank() != 4 || !pixels) return lower_reduction<Reduction::kMean>(l, node);
  const TensorId y = l.builder().global_avg_pool(node.label(), l.in(node, 0, channels_last(4)));
  if (node.flag("keepdim")) return l.set(node, y, channels_last(4));
  l.set_logical(node, y);
}

void lower_variance(Lowering& l, const NodeView& node) {
  lower_over(
      l, node, sorted_axes(node), [&](TensorId x, const std::vector<int>& axes, bool keepdim) {
        return l.builder().variance(node.label(), x, axes, keepdim, node.integer("correction"));
      });
}

void lower_logsumexp(Lowering& l, const NodeView& node) {
  lower_over(l, node, sorted_axes(node),
             [&](TensorId x, const std::vector<int>& axes, bool keepdim) {
               return l.builder().logsumexp(node.label(), x, axes, keepdim);
             });
}

template <Reduction kReduction>
void lower_arg(Lowering& l, const NodeView& node) {
  lower_over(l, node, {node.integer("axis")},
             [&](TensorId x, const std::vector<int>& axes, bool keepdim) {
               return l.builder().arg_reduce(node.label(), kReduction, x, axes[0], keepdim);
             });
}

// The first element that is equal to the best one.
template <Reduction kReduction>
void lower_long_arg(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const auto [order, places, kept] = over(node, {node.integer("axis")});
  const Long x = l.long_operand(node, 0, order);
  const Long best = long_reduce(b, node.label(), kReduction, x, places, true);
  l.set(node,
        b.arg_reduce(node.label(), Reduction::kMax, long_equal(b, node.label(), x, best), places[0],
                     node.flag("keepdim")),
        kept);
}

void lower_long_cumsum(Lowering& l, const NodeView& node) {
  const AxisOrder order = logical_order(node.shape().rank());
  const Long x = l.long_operand(node, 0, order);
  l.set_long(node,
             long_cumsum(l.builder(), node.label(), x, static_cast<int>(node.integer("axis"))),
             order);
}

void lower_cumsum(Lowering& l, const NodeView& node) {
  const TensorId x = l.logical(node, 0);
  l.set_logical(node, l.builder().cumsum(node.label(), x, static_cast<int>(node.integer("axis"))));
}

Kind reduction(const char* name, const char* result, void (*lower)(Lowering&, const NodeView&),
               void (*lower_long)(Lowering&, const NodeView&) = nullptr) {
  return {.name = name,
          .result = result,
          .slots = {{"x", lower_long == nullptr ? "f" : "fil"}},
          .attributes = {integers("axes", 0, kRankMax - 1), flag("keepdim").or_else(0.0)},
          .outputs = reduction_outputs,
          .lower = lower,
          .lower_long = lower_long};
}

template <Reduction kReduction>
Kind arg_reduction(const char* name, const char* result) {
  return {.name = name,
          .result = result,
          .slots = {{"x", "fil"}},
          .attributes = {axis_rule(), flag("keepdim").or_else(0.0)},
          .outputs = arg_outputs,
          .lower = lower_arg<kReduction>,
          .lower_long = lower_long_arg<kReduction>};
}

}  // namespace

std::vector<Kind> reduction_kinds() {
  Kind variance = reduction(
      "var", "the variance over these axes; the divisor is n minus the correction", lower_variance);
  variance.attributes.push_back(integer("correction", 0, 0x7fffffff).or_else(1.0));
  variance.outputs = variance_outputs;
  return {
      reduction("sum", "the sum over these axes", lower_reduction<Reduction::kSum>,
                lower_long_reduction<Reduction::kSum>),
      reduction("mean", "the mean over these axes", lower_mean),
      reduction("amax", "the largest element over these axes", lower_reduction<Reduction::kMax>,
                lower_long_reduction<Reduction::kMax>),
      reduction("amin", "the smallest element over these axes", lower_reduction<Reduction::kMin>,
                lower_long_reduction<Reduction::kMin>),
      reduction("prod", "the product over these axes", lower_reduction<Reduction::kProd>),
      reduction("logsumexp", "log of the sum of exp over these axes", lower_logsumexp),
      std::move(variance),
      arg_reduction<Reduction::kMax>("argmax", "the index of the first largest element, as i32"),
      arg_reduction<Reduction::kMin>("argmin", "the index of the first smallest element, as i32"),
      {.name = "cumsum",
       .result = "the sums of all elements up to this one",
       .slots = {{"x", "fil"}},
       .attributes = {axis_rule()},
       .outputs = cumsum_outputs,
       .lower = lower_cumsum,
       .lower_long = lower_long_cumsum},
  };
}

}  // namespace es::gpu
