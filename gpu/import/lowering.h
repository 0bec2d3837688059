#pragma once
// Lowering is the state of an import: the graph so far, and how each value of the program is stored
// in it.
//
// A value has the logical axes of PyTorch. Its tensor has the same axes in an order of its own, so
// that images stay [n,h,w,c] between the operators that want them so. A permute renames the axes of
// a value; an operator that needs another order gets a move. The order in which numbers are added
// is part of an operator's definition and never depends on how its inputs are stored.
//
// After the first error of the builder every call returns without effect.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gpu/graph/builder.h"
#include "gpu/import/longs.h"
#include "gpu/import/node_view.h"
#include "gpu/import/stored_params.h"
#include "proto/base/model_program.h"

namespace es::gpu {

// Axis i of a tensor is axis order[i] of the value.
using AxisOrder = std::vector<int>;

AxisOrder logical_order(int rank);
// [n,c,...] becomes [n,...,c]. REQUIRES: rank >= 2.
AxisOrder channels_last(int rank);
// Returns the order in which the axis is the last one and the others keep their order.
AxisOrder axis_last(int rank, int axis);

// How a value is stored.
struct StoredValue {
  TensorId tensor = kNoTensor;
  AxisOrder order;
};

class Lowering {
 public:
  // All arguments outlive this object. `builder` has the table of `stored`.
  Lowering(const LiveProgram& live, const StoredModel& stored, std::int64_t batch,
           GraphBuilder& builder);

  GraphBuilder& builder() { return builder_; }
  std::int64_t batch() const { return batch_; }
  const ModelProgram& program() const { return program_; }
  const ValueInfo& info(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }

  // Returns the tensor of an input with its axes in this order. A move that this takes has the name
  // of the node.
  TensorId in(const NodeView& node, std::size_t slot, const AxisOrder& order);
  // The axes in logical order. A number is a tensor [1].
  TensorId logical(const NodeView& node, std::size_t slot) {
    return in(node, slot, logical_order(node.shape(slot).rank()));
  }
  const StoredValue& stored(ValueId id);
  // Returns an input as an operand of an operator on values of this rank: axes of extent 1 are
  // added in front, and then the axes are in this order.
  TensorId operand(const NodeView& node, std::size_t slot, const AxisOrder& order);
  // Returns the order in which an operator with operands that are broadcast works: that of an input
  // with all axes of the output, preferably one that is not logical.
  AxisOrder common_order(const NodeView& node);

  // Says which word of values of 64 bits the functions above return, and those below set, until the
  // next call: the low one (at first) or the high one.
  void select_word(bool high) { high_word_ = high; }
  bool high_word() const { return high_word_; }
  // Both words of an operand, and of the output.
  Long long_operand(const NodeView& node, std::size_t slot, const AxisOrder& order);
  void set_long(const NodeView& node, const Long& x, const AxisOrder& order);

  // Says how an output is stored; its tensor may have another shape with the same words.
  void set(const NodeView& node, TensorId tensor, const AxisOrder& order, std::size_t output = 0);
  void set_logical(const NodeView& node, TensorId tensor, std::size_t output = 0);

  // Gives the operator its weight and bias from the slots 1 and 2 of the node, with the weight in
  // this order. A parameter that only this operator uses, and that is trained, is one of the
  // operator; other values become inputs.
  void set_weights(Op& op, const NodeView& node, const AxisOrder& order);
  // The same for a normalisation over `count` elements: a missing weight is 1, a missing bias 0.
  void set_affine(Op& op, const NodeView& node, std::int64_t count);
  // Gives the operator the constants 1 and 0 for the weight and the bias that it lacks.
  void set_missing(Op& op, const std::string& name, std::int64_t count);
  void set_weight(Op& op, ValueId id, const AxisOrder& order);
  void set_bias(Op& op, ValueId id);
  // The same for a weight [o,c*pixels] of a linear layer on an image with this number of channels.
  // Its columns are read with the channels last.
  void set_image_weight(Op& op, ValueId id, std::int64_t channels);

  // Says that a step or evaluation is wrong if a truth value of this tensor holds. Then the loss
  // and the outputs are NaN.
  void refuse_if(const std::string& name, TensorId wrong);
  // Returns x, or NaN where refuse_if() has found a reason. The loss and every output pass here.
  TensorId unless_refused(TensorId x);

  // Returns the statistics with these numbers for the next batch norm that updates them.
  BatchNormStats statistics(std::int64_t mean, std::int64_t variance);

  // Gives the state with this number the content x in logical order; returns what is read of it
  // from there on.
  TensorId set_state(const std::string& name, std::int64_t index, TensorId x);

  // Whether the program's loss is this output.
  bool is_loss(const NodeView& node, std::size_t output = 0) const {
    return node.output(output) == program_.loss;
  }
  // Says that the loss of the model, if it is the output of the node, is the weighted mean of these
  // rows. It is ignored where a row may depend on several samples (sample_rows.h).
  void set_loss_rows(const NodeView& node, const LossRows& rows);
  // Completes the graph: the outputs, and the loss.
  Result<Graph> finish();

  int uses(ValueId id) const { return live_.uses_of(id); }

 private:
  // Returns the parameter that is the value if only one operator uses it; else kNoParam.
  ParamId own_param(ValueId id, const AxisOrder& order) const;
  bool is_high(ValueId id) const { return high_word_ && info(id).type == ValueType::kI64; }
  StoredValue& at(ValueId id) {
    return (is_high(id) ? high_ : stored_)[static_cast<std::size_t>(id)];
  }
  TensorShape shape_in(ValueId id, const AxisOrder& order) const;
  // Returns the tensor of the value in this order, for the operator or result with this name.
  TensorId in_order(const std::string& name, ValueId id, const AxisOrder& order);
  // Finds the parameters of the program in the table.
  void find_parameters(const StoredModel& stored);
  std::int64_t stat_named(const std::string& name) const;
  // Gives the next step what the program leaves of the statistics and states as it is.
  void keep_others();
  void add_inputs();
  void add_constants();
  void add_states();

  const LiveProgram& live_;
  const ModelProgram& program_;
  std::span<const ValueInfo> values_;
  std::int64_t batch_;
  GraphBuilder& builder_;
  std::vector<StoredValue> stored_;  // [value]; of 64 bits: the low words
  std::vector<StoredValue> high_;    // [value of 64 bits]: the high words
  bool high_word_ = false;
  std::vector<ParamId> param_;  // [value]
  std::vector<bool> trained_;   // [ParamId]: by this program
  // [weight of a linear layer on an image] the channels, if the parameter is stored with these last
  std::map<ValueId, std::int64_t> image_channels_;
  std::map<std::tuple<ValueId, bool, AxisOrder>, TensorId> reordered_;  // [value, high word, order]
  std::vector<std::int64_t> state_place_;                               // [state]
  std::set<std::int64_t> written_;  // places of statistics and states that a node writes
  std::map<std::int64_t, BatchNormStats> statistics_;  // [number of the mean], for the next one
  std::string refused_by_;                             // the first node that called refuse_if()
  LossRows loss_rows_;                                 // of a loss that no operator computes
  TensorId refused_ = kNoTensor;                       // its truth values and those of others: [1]
};

// Describes samples as the program's inputs: see import.h.
SampleLayout layout_of(const ModelProgram& program);

}  // namespace es::gpu
