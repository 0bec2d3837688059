#include "gpu/graph/chunk_losses.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// The operators that become one: their places in the list.
struct LossPattern {
  std::size_t linear = kNone, loss = kNone, loss_grad = kNone;
  std::size_t data_grad = kNone, weight_grad = kNone, bias_grad = kNone;
  std::vector<std::size_t> views;       // of the logits, in their order
  std::vector<std::size_t> grad_views;  // of their gradient
};

class LossChunks {
 public:
  LossChunks(Program program, std::int64_t least_floats)
      : program_(std::move(program)), least_floats_(least_floats) {
    const Uses uses(program_.graph);
    writer_ = uses.writer;
    readers_.resize(program_.graph.tensors.size());
    for (std::size_t i = 0; i < ops().size(); ++i)
      for (const TensorId t : ops()[i].in) Uses::at(readers_, t).push_back(i);
  }

  Program run() {
    if (const std::optional<LossPattern> found = find()) replace(*found);
    return std::move(program_);
  }

 private:
  const std::vector<Op>& ops() const { return program_.graph.ops; }
  const Op& op(std::size_t index) const { return ops()[index]; }
  bool is_output(TensorId t) const {
    return std::ranges::find(program_.graph.outputs, t) != program_.graph.outputs.end();
  }

  // Returns the only operator that reads a tensor, or kNone.
  std::size_t only_reader(TensorId t) const {
    const std::vector<std::size_t>& readers = Uses::at(readers_, t);
    return readers.size() == 1 ? readers[0] : kNone;
  }

  std::optional<LossPattern> find() const {
    LossPattern p;
    for (std::size_t i = 0; i < program_.first_backward; ++i)
      if (op(i).kind == OpKind::kCrossEntropy) p.loss = i;
    if (p.loss == kNone || !find_linear(p) || !is_large(p) || !find_gradients(p))
      return std::nullopt;
    return p;
  }

  // From the loss back to the layer.
  bool find_linear(LossPattern& p) const {
    TensorId logits = op(p.loss).in[0];
    while (only_reader(logits) != kNone && Uses::at(writer_, logits) >= 0) {
      const auto writer = static_cast<std::size_t>(Uses::at(writer_, logits));
      if (op(writer).kind == OpKind::kLinear) {
        p.linear = writer;
        return true;
      }
      if (op(writer).kind != OpKind::kView) return false;
      p.views.insert(p.views.begin(), writer);
      logits = op(writer).in[0];
    }
    return false;
  }

  bool is_large(const LossPattern& p) const {
    const TensorShape& logits = program_.graph.shape(op(p.linear).out[0]);
    return logits.rows() > kLossRows && logits.count() >= least_floats_ &&
           program_.graph.shape(op(p.loss).in[0]).row() == logits.row();
  }

  // From the loss to the gradients of the layer.
  bool find_gradients(LossPattern& p) const {
    p.loss_grad = only_reader(op(p.loss).out[0]);
    if (p.loss_grad == kNone || op(p.loss_grad).kind != OpKind::kCrossEntropyGrad) return false;
    TensorId gradient = op(p.loss_grad).out[0];
    for (std::size_t i; (i = only_reader(gradient)) != kNone && op(i).kind == OpKind::kView;) {
      p.grad_views.push_back(i);
      gradient = op(i).out[0];
    }
    for (const std::size_t i : Uses::at(readers_, gradient)) {
      switch (op(i).kind) {
        case OpKind::kLinearDgrad:
          p.data_grad = i;
          break;
        case OpKind::kLinearWgrad:
          p.weight_grad = i;
          break;
        case OpKind::kBiasGrad:
          p.bias_grad = i;
          break;
        default:
          return false;
      }
    }
    // The gradients of a weight and a bias that are frozen do not exist.
    return p.data_grad != kNone;
  }

  TensorId add_tensor(const TensorShape& shape) {
    program_.graph.tensors.push_back({shape, ElementType::kF32, false});
    return static_cast<TensorId>(program_.graph.tensors.size() - 1);
  }

  Op joined(const LossPattern& p) {
    Op op = ops()[p.linear];
    op.kind = OpKind::kLinearCrossEntropy;
    op.region = 0;  // no operator of a region computes it again
    op.terms = ops()[p.loss].terms;
    op.tensors = {};
    op.in = {ops()[p.linear].in[0], ops()[p.loss].in[1]};
    const auto read = [&](std::int32_t from, std::int32_t& to) {
      if (from < 0) return;
      to = static_cast<std::int32_t>(op.in.size());
      op.in.push_back(ops()[p.linear].in[static_cast<std::size_t>(from)]);
    };
    read(ops()[p.linear].tensors.weight, op.tensors.weight);
    read(ops()[p.linear].tensors.bias, op.tensors.bias);
    op.out = {ops()[p.data_grad].out[0]};
    const std::int64_t classes = program_.graph.shape(ops()[p.linear].out[0]).row();
    const std::int64_t width = program_.graph.shape(op.in[0]).row();
    // A forward operator may not write to the array of gradients, which on a device still belongs
    // to the step before. So the gradients of parameters are tensors here. They are copied in the
    // backward pass, unless the memory plan places them in the array.
    const auto write = [&](std::size_t grad, const TensorShape& shape, std::int32_t& to) {
      if (grad == kNone) return;
      to = static_cast<std::int32_t>(op.out.size());
      op.out.push_back(ops()[grad].out.empty() ? add_tensor(shape) : ops()[grad].out[0]);
    };
    write(p.weight_grad, {classes, width}, op.tensors.weight_grad);
    write(p.bias_grad, {classes}, op.tensors.bias_grad);
    const bool is_read =
        is_output(ops()[p.linear].out[0]) ||
        std::ranges::any_of(p.views, [&](std::size_t i) { return is_output(ops()[i].out[0]); });
    if (is_read) op.out.push_back(ops()[p.linear].out[0]);
    op.out.push_back(ops()[p.loss].out[1]);
    op.out.push_back(ops()[p.loss].out[2]);
    return op;
  }

  // Turns the gradient of a parameter into a copy of a result of `from`; drops that of a tensor,
  // which is this result.
  void copy_gradient(std::size_t grad, ParamId param, TensorId from, std::vector<bool>& dropped) {
    if (grad == kNone) return;
    if (!ops()[grad].out.empty()) {
      dropped[grad] = true;
      return;
    }
    program_.graph.ops[grad] = {
        .kind = OpKind::kParameterGrad, .name = ops()[grad].name, .in = {from}, .weight = param};
  }

  void replace(const LossPattern& p) {
    const Op op = joined(p);
    std::vector<bool> dropped(ops().size(), false);
    for (const std::size_t i : {p.linear, p.loss, p.loss_grad, p.data_grad}) dropped[i] = true;
    for (const auto* views : {&p.views, &p.grad_views})
      for (const std::size_t i : *views) dropped[i] = true;
    const auto gradient = [&](std::int32_t position) {
      return position < 0 ? kNoTensor : op.out[static_cast<std::size_t>(position)];
    };
    copy_gradient(p.weight_grad, op.weight, gradient(op.tensors.weight_grad), dropped);
    copy_gradient(p.bias_grad, op.bias, gradient(op.tensors.bias_grad), dropped);
    const bool keeps_logits = evaluation_output(op) != kNoTensor;
    std::vector<Op> result;
    std::size_t first_backward = 0;
    for (std::size_t i = 0; i < ops().size(); ++i) {
      if (i == program_.first_backward) first_backward = result.size();
      if (i == p.loss) {
        result.push_back(op);
        for (const std::size_t view : p.views)
          if (keeps_logits) result.push_back(ops()[view]);
      }
      if (!dropped[i]) result.push_back(ops()[i]);
    }
    program_.graph.ops = std::move(result);
    program_.first_backward = first_backward;
  }

  Program program_;
  std::int64_t least_floats_;
  std::vector<std::int64_t> writer_;               // [tensor]: operator, or -1
  std::vector<std::vector<std::size_t>> readers_;  // [tensor]: operators
};

}  // namespace

Program chunk_losses(Program program, std::int64_t least_floats) {
  return LossChunks(std::move(program), least_floats).run();
}

}  // namespace es::gpu
