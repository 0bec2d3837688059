#include "gpu/graph/builder.h"

#include <algorithm>
#include <bit>

#include "gpu/graph/merge_moves.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// The largest number of elements of a tensor. A tensor of 2^40 floats has 2^42 bytes, so byte
// offsets and the products that kernels form of extents and strides stay far below 2^63.
constexpr std::int64_t kTensorFloatsMax = std::int64_t{1} << 40;

bool addressable(const TensorShape& s) {
  std::int64_t count = 1;
  for (int axis = 0; axis < s.rank(); ++axis) {
    // The division keeps the product below the limit before it is formed, so extents that a user
    // states cannot overflow it.
    if (s[axis] < 1 || s[axis] > kTensorFloatsMax / count) return false;
    count *= s[axis];
  }
  return s.rank() > 0;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string model, std::int64_t batch, const SampleLayout& layout,
                           ParamTable table) {
  graph_.name = std::move(model);
  graph_.table = std::move(table);
  graph_.batch = batch;
  graph_.layout = layout;
  for (const SampleField& field : layout.fields) {
    ImageShape shape{batch, field.height, field.width, field.channels};
    if (!addressable(shape)) {
      fail("input", field.name,
           "shape " + shape_text(shape) +
               ": every dimension must be at least 1 and the tensor addressable");
      // The tensor gets the shape of one element, so that later calls, which do not know of the
      // error yet, can still read a shape.
      shape = {};
    }
    const bool ids = field.type == FieldType::kI32;
    const TensorId t = add_tensor(shape, false, ids ? ElementType::kI32 : ElementType::kF32);
    note(t).low = field.low;
    note(t).high = field.high;
    graph_.inputs.push_back(t);
  }
  if (layout.fields.empty()) {
    add_tensor(ImageShape(), false);  // a tensor whose id can be returned after the error
    fail("input", "", "a sample has no fields");
  }
}

TensorId GraphBuilder::input(std::string_view field) {
  if (failed()) return 0;
  const std::size_t index = graph_.layout.find(field);
  if (index < graph_.inputs.size()) return graph_.inputs[index];
  std::string names;
  for (const SampleField& f : graph_.layout.fields) names += (names.empty() ? "" : ", ") + f.name;
  return fail("input", std::string(field), "the samples have no such field, only " + names);
}

std::int32_t GraphBuilder::high(std::string_view field) const {
  const std::size_t index = graph_.layout.find(field);
  if (failed() || index >= graph_.inputs.size()) return 0;
  const SampleField& found = graph_.layout.fields[index];
  return found.type == FieldType::kI32 ? found.high : 0;
}

TensorId GraphBuilder::add_tensor(const TensorShape& shape, bool needs_grad, ElementType type) {
  graph_.tensors.push_back({shape, type, needs_grad});
  // A tensor that is no flattened image has one pixel, and its row is its channels. A linear layer
  // takes the order of its weight from these two numbers.
  notes_.push_back({.channels = shape.row()});
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::add_constant(const std::string& name, TensorShape shape, ElementType type,
                                    std::vector<float> words) {
  if (failed()) return 0;
  if (!addressable(shape) || static_cast<std::int64_t>(words.size()) != shape.count())
    return fail("constant", name,
                std::to_string(words.size()) + " values do not fill shape " + shape_text(shape));
  const TensorId t = add_tensor(shape, false, type);
  graph_.constants.push_back({name, t, std::move(words)});
  return t;
}

TensorId GraphBuilder::constant(const std::string& name, TensorShape shape,
                                std::vector<float> values) {
  return add_constant(name, shape, ElementType::kF32, std::move(values));
}

TensorId GraphBuilder::constant_ids(const std::string& name, TensorShape shape,
                                    std::vector<std::int32_t> values) {
  std::vector<float> words(values.size());
  std::transform(values.begin(), values.end(), words.begin(),
                 // Constants are stored as floats, and an integer as the float with the same bits.
                 // A conversion to a number would lose integers above 2^24.
                 [](std::int32_t v) { return std::bit_cast<float>(v); });
  const TensorId t = add_constant(name, shape, ElementType::kI32, std::move(words));
  if (failed()) return t;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  note(t).low = *low;
  note(t).high = *high;
  return t;
}

TensorId GraphBuilder::fail(const char* kind, const std::string& name, const std::string& what) {
  if (!failed())
    error_ = usage_error("model " + graph_.name + ": " + kind + " \"" + name + "\": " + what);
  return 0;
}

bool GraphBuilder::floats(const char* kind, const std::string& name,
                          const std::vector<TensorId>& xs) {
  for (const TensorId t : xs)
    if (tensor(t).type != ElementType::kF32)
      fail(kind, name, "input " + shape_text(graph_.shape(t)) + " holds integers, not numbers");
  return !failed();
}

// A flattened image has its elements in the order [h,w,c], and PyTorch has them in the order
// [c,h,w]. Element-wise operators do not notice, and a linear layer stores the columns of its
// weight in the order of the engine. Any other operator would compute something else than in
// PyTorch.
bool GraphBuilder::dense_floats(const char* kind, const std::string& name,
                                const std::vector<TensorId>& xs) {
  if (!floats(kind, name, xs)) return false;
  for (const TensorId t : xs)
    if (note(t).pixels > 1)
      fail(kind, name,
           "input is a flattened image; between flatten and linear only element-wise operators "
           "may stand");
  return !failed();
}

bool GraphBuilder::check_inputs(const Op& op) {
  const Operator& entry = op_def(op.kind);
  const std::size_t count = std::min(entry.inputs_checked, op.in.size());
  const std::vector<TensorId> xs(op.in.begin(), op.in.begin() + static_cast<std::ptrdiff_t>(count));
  if (entry.inputs == Inputs::kNumbers) return floats(entry.name, op.name, xs);
  if (entry.inputs == Inputs::kAny) return true;
  if (!dense_floats(entry.name, op.name, xs)) return false;
  for (const TensorId t : xs)
    if (entry.inputs == Inputs::kImages) image_input(entry.name, op.name, t);
  return !failed();
}

bool GraphBuilder::image_input(const char* kind, const std::string& name, TensorId x) {
  if (!is_image(shape(x)))
    fail(kind, name, "its input " + shape_text(shape(x)) + " must be an image [n,h,w,c]");
  return !failed();
}

std::optional<std::vector<Tensor>> GraphBuilder::outputs_of(Op& op) {
  if (failed() || !check_inputs(op)) return std::nullopt;
  Result<std::vector<Tensor>> outputs = op_def(op.kind).outputs(graph_, op);
  if (outputs) return *std::move(outputs);
  fail(op_name(op.kind), op.name, outputs.error().message);
  return std::nullopt;
}

// The first output depends on parameters if an input does or the operator has some. The other
// outputs are values that the gradient operator reads again, such as the mean of a batch norm, and
// no gradient flows into them. A loss is where the differentiation starts, so its outputs need no
// gradient either.
TensorId GraphBuilder::append(Op op, std::vector<Tensor> outputs) {
  // Some functions of a program have no gradient for any operand, for example floor. Their result
  // counts as a constant, as in PyTorch, where the gradient is 0.
  const bool differentiable = op_def(op.kind).gradient != nullptr &&
                              (op.kind != OpKind::kProgram || is_differentiable(op.function));
  bool needs_grad = op.weight != kNoParam;
  for (const TensorId t : op.in) needs_grad = needs_grad || tensor(t).needs_grad;
  needs_grad = needs_grad && differentiable;
  for (const Tensor& y : outputs) {
    if (!addressable(y.shape))
      return fail(op_name(op.kind), op.name, "output " + shape_text(y.shape) + " is too large");
    const bool first = op.out.empty() && !op_def(op.kind).is_loss;
    op.out.push_back(add_tensor(y.shape, first && needs_grad, y.type));
  }
  push(std::move(op));
  return graph_.ops.back().out[0];
}

void GraphBuilder::push(Op op) {
  op.region = region_;
  graph_.ops.push_back(std::move(op));
}

TensorId GraphBuilder::apply(Op op) {
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  return outputs ? append(std::move(op), *std::move(outputs)) : 0;
}

ParamId GraphBuilder::add_param(const std::string& name, std::vector<std::int64_t> torch_shape,
                                ParamOrder order, ParamInit init) {
  for (const ParamInfo& p : graph_.table.params())
    if (p.name == name) fail("parameter", name, "the model has another one of this name");
  return graph_.table.add(
      {.name = name, .torch_shape = std::move(torch_shape), .order = order, .init = init});
}

// Every operator must have a reader. In a built-in model a result that nothing reads is a mistake,
// and the parameters of its operator would never be trained. Imported models may have such
// operators (finish_any).
void GraphBuilder::check_all_used() {
  std::vector<bool> used(graph_.tensors.size(), false);
  for (const TensorId t : graph_.outputs) used[static_cast<std::size_t>(t)] = true;
  for (const Op& op : graph_.ops)
    for (const TensorId t : op.in) used[static_cast<std::size_t>(t)] = true;
  for (const Op& op : graph_.ops) {
    const bool any = std::any_of(op.out.begin(), op.out.end(),
                                 [&](TensorId t) { return used[static_cast<std::size_t>(t)]; });
    if (!any && !op_def(op.kind).is_loss)
      fail(op_name(op.kind), op.name, "nothing reads its output");
  }
}

// Every parameter must have an influence on the loss: a parameter of a built-in model that is never
// trained is a mistake. The operators are visited in reverse, so all readers of an operator's
// outputs have been seen when it is visited.
void GraphBuilder::check_all_trained() {
  std::vector<bool> reaches_loss(graph_.tensors.size(), false);
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    const Op& op = graph_.ops[i];
    const bool reaches =
        op_def(op.kind).is_loss || std::any_of(op.out.begin(), op.out.end(), [&](TensorId t) {
          return reaches_loss[static_cast<std::size_t>(t)] && tensor(t).needs_grad;
        });
    if (!reaches && op.weight != kNoParam)
      fail(op_name(op.kind), op.name, "the loss does not depend on its parameters");
    if (!reaches) continue;
    for (const TensorId t : op.in) reaches_loss[static_cast<std::size_t>(t)] = true;
  }
}

void GraphBuilder::check_result(const std::vector<TensorId>& outputs) {
  if (failed()) return;
  graph_.outputs = outputs;
  check_outputs();
  if (graph_.mean_loss == kNoTensor)
    fail("loss", "", "missing; allowed are cross_entropy, bce_with_logits, mse and yolo");
}

void GraphBuilder::check_outputs() {
  for (const TensorId t : graph_.outputs) {
    const TensorShape& s = graph_.shape(t);
    if (tensor(t).type != ElementType::kF32 || s.front() % graph_.batch != 0)
      fail("output", shape_text(s),
           "must hold numbers, and its first dimension be a multiple of the batch size " +
               std::to_string(graph_.batch));
  }
  if (graph_.outputs.empty()) fail("output", "", "an evaluation needs at least one");
}

Result<Graph> GraphBuilder::finish(const std::vector<TensorId>& outputs) {
  check_result(outputs);
  if (!failed()) check_all_used();
  if (!failed()) check_all_trained();
  return finish_any(outputs);
}

Result<Graph> GraphBuilder::finish_any(const std::vector<TensorId>& outputs) {
  check_result(outputs);
  if (failed()) return *error_;
  // The merge happens here, and not in compile(), because it belongs to the definition of the
  // model: gradients of slices that are not merged would be added, which can change the sign of a
  // zero.
  return merge_slices(std::move(graph_));
}

}  // namespace es::gpu
