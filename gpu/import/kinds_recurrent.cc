// Recurrent layers.
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// The slots behind x, weight and bias: the first states.
constexpr std::size_t kHiddenSlot = 3, kCellSlot = 4;

Status check_slot(const NodeView& node, std::size_t slot, const TensorShape& shape) {
  if (!node.has(slot) || node.shape(slot) == shape) return {};
  return usage_error(std::string(node.kind().slots[slot].name) + " " +
                     shape_text(node.shape(slot)) + " must be " + shape_text(shape));
}

// x [t,n,gates*units], and `more` rows behind the hidden states.
Outputs recurrent_outputs_of(const NodeView& node, std::int64_t gates, std::int64_t more) {
  const TensorShape& x = node.shape();
  if (x.rank() != 3 || x[2] % gates != 0)
    return usage_error("x " + shape_text(x) + " must be [t,n," + std::to_string(gates) + "*units]");
  const std::int64_t units = x[2] / gates;
  ES_RETURN_IF_ERROR(check_slot(node, 1, {x[2], units}));
  ES_RETURN_IF_ERROR(check_slot(node, 2, {x[2]}));
  for (const std::size_t slot : {kHiddenSlot, kCellSlot})
    ES_RETURN_IF_ERROR(check_slot(node, slot, {x[1], units}));
  return one_output(ValueType::kF32, {x[0] + more, x[1], units});
}

Outputs lstm_outputs(const NodeView& node) {
  return recurrent_outputs_of(node, 4, 1);
}
Outputs gru_outputs(const NodeView& node) {
  return recurrent_outputs_of(node, 3, 0);
}

// A state that is missing is +0.
TensorId first_state(Lowering& l, const NodeView& node, std::size_t slot) {
  if (node.has(slot)) return l.logical(node, slot);
  const TensorShape shape{node.shape()[1], node.shape(1)[1]};
  return l.builder().constant(node.label(), shape,
                              std::vector<float>(static_cast<std::size_t>(shape.count()), 0.0F));
}

void lower_recurrent(Lowering& l, const NodeView& node, RecurrentCell cell) {
  Op op{.kind = OpKind::kRecurrent,
        .name = node.label(),
        .in = {l.logical(node, 0), first_state(l, node, kHiddenSlot)}};
  op.recurrence = {.cell = cell, .reverse = node.flag("reverse")};
  if (cell == RecurrentCell::kLstm) op.in.push_back(first_state(l, node, kCellSlot));
  l.set_weights(op, node, {0, 1});
  l.set_logical(node, l.builder().apply(std::move(op)));
}

void lower_lstm(Lowering& l, const NodeView& node) {
  lower_recurrent(l, node, RecurrentCell::kLstm);
}
void lower_gru(Lowering& l, const NodeView& node) {
  lower_recurrent(l, node, RecurrentCell::kGru);
}

}  // namespace

std::vector<Kind> recurrent_kinds() {
  return {
      {.name = "lstm",
       .result = "the hidden states by time and the last cell state behind them, [t+1,n,u]",
       .slots = {{.name = "x", .types = "f", .shape = "[t,n,4u]"},
                 {.name = "weight", .types = "f", .shape = "[4u,u]"},
                 {.name = "bias", .types = "f", .optional = true, .shape = "[4u]"},
                 {.name = "h", .types = "f", .optional = true, .shape = "[n,u]"},
                 {.name = "c", .types = "f", .optional = true, .shape = "[n,u]"}},
       .attributes = {flag("reverse").or_else(0.0)},
       .outputs = lstm_outputs,
       .lower = lower_lstm},
      {.name = "gru",
       .result = "the hidden states by time, [t,n,u]",
       .slots = {{.name = "x", .types = "f", .shape = "[t,n,3u]"},
                 {.name = "weight", .types = "f", .shape = "[3u,u]"},
                 {.name = "bias", .types = "f", .optional = true, .shape = "[3u]"},
                 {.name = "h", .types = "f", .optional = true, .shape = "[n,u]"}},
       .attributes = {flag("reverse").or_else(0.0)},
       .outputs = gru_outputs,
       .lower = lower_gru},
  };
}

}  // namespace es::gpu
