#include "gpu/graph/precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

bool is_number(const Tensor& t) {
  return t.type == ElementType::kF32;
}

// Returns which tensors are outputs, inputs of losses, or what these are computed from.
std::vector<bool> near_the_loss(const Graph& graph) {
  std::vector<bool> near(graph.tensors.size(), false);
  const auto mark = [&](TensorId t) { near[static_cast<std::size_t>(t)] = true; };
  const auto is_near = [&](TensorId t) { return near[static_cast<std::size_t>(t)]; };
  std::ranges::for_each(graph.outputs, mark);
  for (const TensorId t : {graph.row_loss, graph.row_weight, graph.mean_loss})
    if (t != kNoTensor) mark(t);
  // In reverse, so all readers of a tensor come before the operator that writes it.
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    const Operator& entry = op_def(op.kind);
    const bool reaches = entry.is_loss || std::ranges::any_of(op.out, is_near);
    if (!reaches || entry.stored == Stored::kFirstBf16) continue;
    std::ranges::for_each(op.in, mark);
  }
  return near;
}

bool is_stored_as_bf16(const Graph& graph, const Op& op, std::size_t output) {
  const auto bf16 = [&](TensorId t) { return Uses::at(graph.tensors, t).bf16; };
  switch (op_def(op.kind).stored) {
    case Stored::kFirstBf16:
      return output == 0;
    case Stored::kLikeInputs:
      return std::ranges::any_of(op.in, bf16);
    case Stored::kF32:
      return false;
  }
  return false;
}

class StorageConversion {
 public:
  explicit StorageConversion(Program program) : program_(std::move(program)) {}

  Program run() {
    std::vector<Op> ops = std::exchange(graph().ops, {});
    std::size_t first_backward = 0;
    for (now_ = 0; now_ < ops.size(); ++now_) {
      if (now_ == program_.first_backward) first_backward = graph().ops.size();
      convert(std::move(ops[now_]));
    }
    // Without a backward operator the loop has not come to it.
    program_.first_backward =
        program_.first_backward < ops.size() ? first_backward : graph().ops.size();
    return std::move(program_);
  }

 private:
  // A converted tensor, and the operator that has read it last.
  struct Converted {
    TensorId tensor = kNoTensor;
    std::size_t last_read = 0;
  };

  Graph& graph() { return program_.graph; }
  Tensor& tensor(TensorId t) { return Uses::at(graph().tensors, t); }

  void convert(Op op) {
    const Operator& entry = op_def(op.kind);
    // A view is the memory of its input, and the memory of a parameter is always fp32.
    if (entry.is_view || entry.in_params) return graph().ops.push_back(std::move(op));
    const std::vector<std::size_t> factors =
        entry.factors == nullptr ? std::vector<std::size_t>() : entry.factors(op);
    for (std::size_t i = 0; i < op.in.size(); ++i) {
      const bool weight = entry.multiplies_weight && static_cast<int>(i) == op.tensors.weight;
      const bool factor = weight || std::ranges::find(factors, i) != factors.end();
      if (entry.converts_factors && !weight && factor) continue;
      const bool reads = entry.reads_bf16 != nullptr && entry.reads_bf16(op, i);
      if (tensor(op.in[i]).bf16 ? !reads : factor && is_number(tensor(op.in[i])))
        op.in[i] = as_fp32(op.name, op.in[i]);
    }
    if (entry.multiplies_weight && op.tensors.weight < 0) {
      op.tensors.weight = static_cast<std::int32_t>(op.in.size());
      op.in.push_back(rounded(op.name, parameter(op)));
    }
    std::vector<Op> after;
    for (TensorId& t : op.out) {
      if (!tensor(t).bf16 || entry.writes_bf16) continue;
      const TensorId wide = add_tensor(tensor(t).shape);
      after.push_back({.kind = OpKind::kChain, .name = op.name, .in = {wide}, .out = {t}});
      t = wide;
    }
    graph().ops.push_back(std::move(op));
    for (Op& narrow : after) graph().ops.push_back(std::move(narrow));
  }

  // Returns the tensor as fp32 numbers that are bf16 numbers. Operators that follow each other
  // share it; for a later one it is converted again, so that it need not live until then.
  TensorId as_fp32(const std::string& name, TensorId t) {
    Converted& known = converted_[t];
    if (known.tensor == kNoTensor || known.last_read + 1 < now_)
      known.tensor = tensor(t).bf16 ? widened(name, t) : rounded(name, t);
    known.last_read = now_;
    return known.tensor;
  }

  TensorId widened(const std::string& name, TensorId t) {
    return append({.kind = OpKind::kChain, .name = name, .in = {t}}, tensor(t).shape);
  }

  TensorId rounded(const std::string& name, TensorId t) {
    return append({.kind = OpKind::kChain,
                   .name = name,
                   .in = {t},
                   .chain = {{.kind = ChainKind::kRoundBf16}}},
                  tensor(t).shape);
  }

  TensorId parameter(const Op& op) {
    return append({.kind = OpKind::kParameter, .name = op.name, .weight = op.weight},
                  {graph().table[op.weight].count});
  }

  TensorId append(Op op, const TensorShape& shape) {
    const TensorId t = add_tensor(shape);
    op.out = {t};
    graph().ops.push_back(std::move(op));
    return t;
  }

  // The shape is copied, because it may be that of a tensor which the list moves.
  TensorId add_tensor(TensorShape shape) {
    graph().tensors.push_back({shape, ElementType::kF32, false});
    return static_cast<TensorId>(graph().tensors.size() - 1);
  }

  Program program_;
  std::size_t now_ = 0;  // the operator that is converted, in the list of the program before
  std::map<TensorId, Converted> converted_;
};

}  // namespace

Graph choose_storage(Graph graph) {
  if (!graph.bf16) return graph;
  const std::vector<bool> near = near_the_loss(graph);
  for (const Op& op : graph.ops)
    for (std::size_t i = 0; i < op.out.size(); ++i) {
      Tensor& y = Uses::at(graph.tensors, op.out[i]);
      const bool view = op_def(op.kind).is_view;
      if (is_number(y) && (view || !near[static_cast<std::size_t>(op.out[i])]))
        y.bf16 = is_stored_as_bf16(graph, op, i);
    }
  return graph;
}

Program convert_storage(Program program) {
  return program.graph.bf16 ? StorageConversion(std::move(program)).run() : program;
}

bool is_conversion(const Graph& graph, const Op& op) {
  return graph.bf16 && op.kind == OpKind::kChain &&
         std::ranges::all_of(
             op.chain, [](const ChainStep& step) { return step.kind == ChainKind::kRoundBf16; });
}

bool is_part_of_conversion(const Graph& graph, std::size_t op) {
  const Op& one = graph.ops[op];
  if (one.kind != OpKind::kParameter) return is_conversion(graph, one);
  return op + 1 < graph.ops.size() && is_conversion(graph, graph.ops[op + 1]) &&
         graph.ops[op + 1].in[0] == one.out[0];
}

}  // namespace es::gpu
