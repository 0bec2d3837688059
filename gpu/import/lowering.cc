#include "gpu/import/lowering.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "gpu/import/kind.h"
#include "gpu/import/sample_rows.h"

namespace es::gpu {
namespace {

// Returns the axes of the order that have more than one element: two orders that agree in these
// have the same words in the same places, so one is a view of the other.
AxisOrder long_axes(const TensorShape& shape, const AxisOrder& order) {
  AxisOrder axes;
  for (const int axis : order)
    if (shape[axis] > 1) axes.push_back(axis);
  return axes;
}

// Returns the moves from one order of axes to another, as axes of the first tensor.
std::vector<int> permutation(const AxisOrder& from, const AxisOrder& to) {
  std::vector<int> order;
  for (const int axis : to)
    order.push_back(static_cast<int>(std::find(from.begin(), from.end(), axis) - from.begin()));
  return order;
}

// A field of a sample has three extents, and images are [h,w,c] in samples.
SampleField field_of(const ModelInput& input, const ModelValue& value) {
  SampleField field{.name = input.name, .type = FieldType::kF32};
  const std::vector<ModelDim>& dims = value.dims;
  const auto size = [&](std::size_t d) { return d < dims.size() ? dims[d].size : 1; };
  if (value.type != ValueType::kF32) {
    field.type = FieldType::kI32;
    field.low = value.type == ValueType::kBool ? 0 : input.low;
    field.high = value.type == ValueType::kBool ? 1 : input.high;
  }
  // The table of extents is in import.h: [B,t,d] becomes t, 1, d, and an image [B,c,h,w] becomes h,
  // w, c.
  field.height = size(1);
  field.width = dims.size() == 4 ? size(3) : 1;
  field.channels = size(2);
  if (dims.size() == 4) {
    field.height = size(2);
    field.channels = size(1);
  }
  // A field has three extents, so the axes behind the third one of a value that is no image become
  // its channels.
  for (std::size_t d = 3; d < dims.size() && dims.size() != 4; ++d) field.channels *= size(d);
  return field;
}

}  // namespace

AxisOrder logical_order(int rank) {
  AxisOrder order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

AxisOrder axis_last(int rank, int axis) {
  AxisOrder order = logical_order(rank);
  order.erase(order.begin() + axis);
  order.push_back(axis);
  return order;
}

AxisOrder channels_last(int rank) {
  return axis_last(rank, 1);
}

SampleLayout layout_of(const ModelProgram& program) {
  SampleLayout layout;
  for (const ModelInput& input : program.inputs)
    layout.fields.push_back(field_of(input, program.values[static_cast<std::size_t>(input.value)]));
  return layout;
}

Lowering::Lowering(const LiveProgram& live, const StoredModel& stored, std::int64_t batch,
                   GraphBuilder& builder)
    : live_(live),
      program_(*live.program),
      values_(live.values),
      batch_(batch),
      builder_(builder),
      stored_(values_.size()),
      high_(values_.size()),
      param_(values_.size(), kNoParam) {
  add_inputs();
  add_constants();
  add_states();
  find_parameters(stored);
}

void Lowering::add_inputs() {
  for (const ModelInput& input : program_.inputs) {
    const int rank = info(input.value).shape.rank();
    // Samples hold images as [h,w,c], so a batch of them is [n,c,h,w] with its channels last.
    const AxisOrder order = rank == 4 ? channels_last(rank) : logical_order(rank);
    TensorId t = builder_.input(input.name);
    if (info(input.value).type == ValueType::kBool)
      t = builder_.cast(input.name, t, ElementType::kF32);
    at(input.value) = {builder_.reshape(input.name, t, shape_in(input.value, order)), order};
  }
}

void Lowering::add_constants() {
  for (const ModelConstant& c : program_.constants) {
    // Only nodes that are lowered count, so constants of the others take no memory.
    if (uses(c.value) == 0) continue;
    const AxisOrder order = logical_order(info(c.value).shape.rank());
    const TensorShape shape = shape_in(c.value, order);
    const ValueType type = info(c.value).type;
    if (type == ValueType::kI32 || type == ValueType::kI64) {
      const std::size_t step = type == ValueType::kI64 ? 2 : 1;
      for (std::size_t word = 0; word < step; ++word) {
        std::vector<std::int32_t> words;
        for (std::size_t i = word; i < c.words.size(); i += step)
          words.push_back(static_cast<std::int32_t>(c.words[i]));
        select_word(word == 1);
        at(c.value) = {builder_.constant_ids(c.name, shape, std::move(words)), order};
      }
      select_word(false);
      continue;
    }
    std::vector<float> words(c.words.size());
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = type == ValueType::kBool ? static_cast<float>(c.words[i])
                                          : std::bit_cast<float>(c.words[i]);
    at(c.value) = {builder_.constant(c.name, shape, std::move(words)), order};
  }
}

void Lowering::add_states() {
  for (const ModelState& state : program_.states) {
    const ValueInfo& value = info(state.value);
    const std::int64_t place = stat_named(state.name);
    state_place_.push_back(place);
    const AxisOrder order = logical_order(value.shape.rank());
    const auto type = value.type == ValueType::kI32 ? ElementType::kI32 : ElementType::kF32;
    if (uses(state.value) != 0)
      at(state.value) = {builder_.state(state.name, place, shape_in(state.value, order), type),
                         order};
  }
}

TensorId Lowering::set_state(const std::string& name, std::int64_t index, TensorId x) {
  const std::int64_t place = state_place_[static_cast<std::size_t>(index)];
  written_.insert(place);
  return builder_.set_state(name, place, x);
}

std::int64_t Lowering::stat_named(const std::string& name) const {
  return std::ranges::find(builder_.table().stats(), name, &StatInfo::name)->offset;
}

void Lowering::find_parameters(const StoredModel& stored) {
  const std::vector<bool> trained = trained_parameters(live_);
  trained_.resize(stored.params.size());
  std::map<std::string_view, ParamId> ids;
  for (std::size_t i = 0; i < stored.params.size(); ++i)
    ids.emplace(stored.params[i].name, static_cast<ParamId>(i));
  for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
    const ModelParameter& parameter = program_.parameters[i];
    const ParamId id = ids.at(parameter.name);
    const StoredParam& param = stored.params[static_cast<std::size_t>(id)];
    const int rank = info(parameter.value).shape.rank();
    at(parameter.value).order = param.kernel ? channels_last(rank) : logical_order(rank);
    if (param.image_channels != 0) image_channels_[parameter.value] = param.image_channels;
    param_[static_cast<std::size_t>(parameter.value)] = id;
    trained_[static_cast<std::size_t>(id)] = trained[i];
  }
}

TensorShape Lowering::shape_in(ValueId id, const AxisOrder& order) const {
  const TensorShape& logical = info(id).shape;
  if (logical.rank() == 0) return {1};
  TensorShape shape;
  for (const int axis : order) shape.append(logical[axis]);
  return shape;
}

const StoredValue& Lowering::stored(ValueId id) {
  StoredValue& place = at(id);
  const ParamId param = param_[static_cast<std::size_t>(id)];
  if (place.tensor == kNoTensor && param != kNoParam)
    place.tensor = builder_.parameter_tensor(param, shape_in(id, place.order),
                                             trained_[static_cast<std::size_t>(param)]);
  return place;
}

TensorId Lowering::in_order(const std::string& name, ValueId id, const AxisOrder& order) {
  const StoredValue& from = stored(id);
  if (from.order == order) return from.tensor;
  // A value that several nodes need in this order is moved once.
  const auto [found, added] = reordered_.try_emplace({id, is_high(id), order}, kNoTensor);
  if (!added) return found->second;
  const TensorShape& logical = info(id).shape;
  const bool same_words = long_axes(logical, from.order) == long_axes(logical, order);
  found->second = same_words ? builder_.reshape(name, from.tensor, shape_in(id, order))
                             : builder_.permute(name, from.tensor, permutation(from.order, order));
  return found->second;
}

AxisOrder Lowering::common_order(const NodeView& node) {
  const TensorShape& out = node.out().shape;
  const AxisOrder plain = logical_order(out.rank());
  AxisOrder order = plain;
  for (std::size_t slot = node.inputs(); slot-- > 0;)
    // From the last input to the first, so the first one that qualifies remains.
    if (node.has(slot) && node.shape(slot) == out && stored(node.input(slot)).order != plain)
      order = stored(node.input(slot)).order;
  return order;
}

TensorId Lowering::operand(const NodeView& node, std::size_t slot, const AxisOrder& order) {
  const TensorShape& shape = node.shape(slot);
  const int rank = static_cast<int>(order.size()), added = rank - shape.rank();
  if (added == 0) return in(node, slot, order);
  TensorShape wide;
  for (int axis = 0; axis < added; ++axis) wide.append(1);
  for (int axis = 0; axis < shape.rank(); ++axis) wide.append(shape[axis]);
  const std::string name = node.label();
  const TensorId x = builder_.reshape(name, logical(node, slot), wide);
  TensorShape ordered;
  for (const int axis : order) ordered.append(wide[axis]);
  const bool same = long_axes(wide, order) == long_axes(wide, logical_order(rank));
  return same ? builder_.reshape(name, x, ordered) : builder_.permute(name, x, order);
}

TensorId Lowering::in(const NodeView& node, std::size_t slot, const AxisOrder& order) {
  return in_order(node.label(), node.input(slot), order);
}

Long Lowering::long_operand(const NodeView& node, std::size_t slot, const AxisOrder& order) {
  Long x;
  for (const bool high : {true, false}) {
    select_word(high);
    (high ? x.high : x.low) = operand(node, slot, order);
  }
  return x;
}

void Lowering::set_long(const NodeView& node, const Long& x, const AxisOrder& order) {
  for (const bool high : {true, false}) {
    select_word(high);
    set(node, high ? x.high : x.low, order);
  }
}

void Lowering::set(const NodeView& node, TensorId tensor, const AxisOrder& order,
                   std::size_t output) {
  const ValueId id = node.output(output);
  at(id) = {builder_.reshape(node.label(), tensor, shape_in(id, order)), order};
}

void Lowering::set_logical(const NodeView& node, TensorId tensor, std::size_t output) {
  set(node, tensor, logical_order(node.out(output).shape.rank()), output);
}

ParamId Lowering::own_param(ValueId id, const AxisOrder& order) const {
  const ParamId param = param_[static_cast<std::size_t>(id)];
  // An operator writes the gradient of its own parameter to the gradient array. With two uses the
  // gradients must be added first, so the parameter is then a tensor. The same holds for an order
  // in which the operator does not read it. A frozen parameter has no place in the gradient array.
  const bool own =
      param != kNoParam && uses(id) == 1 && stored_[static_cast<std::size_t>(id)].order == order;
  return own && trained_[static_cast<std::size_t>(param)] ? param : kNoParam;
}

void Lowering::set_weight(Op& op, ValueId id, const AxisOrder& order) {
  op.weight = own_param(id, order);
  if (op.weight != kNoParam) return;
  op.tensors.weight = static_cast<std::int32_t>(op.in.size());
  op.in.push_back(in_order(op.name, id, order));
}

void Lowering::set_bias(Op& op, ValueId id) {
  const AxisOrder order = logical_order(info(id).shape.rank());
  op.bias = own_param(id, order);
  if (op.bias != kNoParam) return;
  op.tensors.bias = static_cast<std::int32_t>(op.in.size());
  op.in.push_back(in_order(op.name, id, order));
}

void Lowering::set_image_weight(Op& op, ValueId id, std::int64_t channels) {
  if (image_channels_.contains(id)) {
    op.weight = param_[static_cast<std::size_t>(id)];
    return;
  }
  const TensorShape& w = info(id).shape;
  // PyTorch's columns are [c][pixels]. The permutation gives [pixels][c], the order of the image.
  const TensorId planes = builder_.reshape(op.name, in_order(op.name, id, logical_order(2)),
                                           {w[0], channels, w[1] / channels});
  op.tensors.weight = static_cast<std::int32_t>(op.in.size());
  op.in.push_back(builder_.reshape(op.name, builder_.permute(op.name, planes, {0, 2, 1}), w));
}

void Lowering::set_weights(Op& op, const NodeView& node, const AxisOrder& order) {
  if (node.has(1)) set_weight(op, node.input(1), order);
  if (node.has(2)) set_bias(op, node.input(2));
}

void Lowering::set_affine(Op& op, const NodeView& node, std::int64_t count) {
  set_weights(op, node, logical_order(node.has(1) ? node.shape(1).rank() : 1));
  set_missing(op, node.label(), count);
}

void Lowering::set_missing(Op& op, const std::string& name, std::int64_t count) {
  const auto fill = [&](ParamId param, std::int32_t& position, float value) {
    if (param != kNoParam || position >= 0) return;
    position = static_cast<std::int32_t>(op.in.size());
    op.in.push_back(builder_.constant(name, {count},
                                      std::vector<float>(static_cast<std::size_t>(count), value)));
  };
  // Constants need no gradient, but the kernels of the norms want both operands.
  fill(op.weight, op.tensors.weight, 1.0F);
  fill(op.bias, op.tensors.bias, 0.0F);
}

BatchNormStats Lowering::statistics(std::int64_t mean, std::int64_t variance) {
  const auto [found, added] = statistics_.try_emplace(mean);
  if (added) {
    const auto place = [&](std::int64_t index) {
      return stat_named(program_.statistics[static_cast<std::size_t>(index)].name);
    };
    found->second = {.mean = place(mean), .variance = place(variance)};
    written_.insert({found->second.mean, found->second.variance});
  }
  const BatchNormStats stats = found->second;
  // The batch norm that is returned first reads the statistics of the version. Later ones of this
  // step read what it has written.
  found->second.updated = true;
  return stats;
}

// A computed index is known in the step only, where no operator can report an error. A wrong one
// turns the loss and the outputs into NaN, which the engine reports.
void Lowering::refuse_if(const std::string& name, TensorId wrong) {
  // Truth values are 1 and +0, so their maximum is 1 if any of them holds.
  const TensorId any = builder_.reduce(name, Reduction::kMax, wrong,
                                       logical_order(builder_.shape(wrong).rank()), false);
  if (refused_ == kNoTensor) refused_by_ = name;
  refused_ = refused_ == kNoTensor ? any : builder_.binary(name, Function::kOr, refused_, any);
}

TensorId Lowering::unless_refused(TensorId x) {
  if (refused_ == kNoTensor) return x;
  const TensorId nan =
      builder_.constant(refused_by_, {1}, {std::numeric_limits<float>::quiet_NaN()});
  return builder_.where(refused_by_, refused_, nan, x);
}

void Lowering::set_loss_rows(const NodeView& node, const LossRows& rows) {
  if (is_loss(node) && rows_are_of_samples(program_, node.node())) loss_rows_ = rows;
}

// A step writes all of the next statistics. Those that this program does not update are copied.
void Lowering::keep_others() {
  for (const StatInfo& stat : builder_.table().stats()) {
    if (written_.contains(stat.offset)) continue;
    const ElementType type = stat.has_integers() ? ElementType::kI32 : ElementType::kF32;
    const TensorShape shape{stat.count};
    builder_.set_state(stat.name, stat.offset, builder_.state(stat.name, stat.offset, shape, type));
  }
}

Result<Graph> Lowering::finish() {
  keep_others();
  if (builder_.failed()) return builder_.finish_any({});
  if (stored(program_.loss).tensor != kNoTensor) {  // else the last operator is the loss
    LossRows rows = loss_rows_;
    if (rows.losses != kNoTensor) rows.losses = unless_refused(rows.losses);
    builder_.scalar_loss("loss", unless_refused(in_order("loss", program_.loss, {})), rows);
  }
  for (const ModelNode& node : program_.nodes)
    if (std::ranges::find(node.outputs, program_.loss) != node.outputs.end() &&
        has_other_samples(program_, node))
      builder_.set_loss_of_batch();
  std::vector<TensorId> outputs;
  for (const ModelOutput& output : program_.outputs)
    outputs.push_back(unless_refused(
        in_order(output.name, output.value, logical_order(info(output.value).shape.rank()))));
  return builder_.finish_any(outputs);
}

}  // namespace es::gpu
