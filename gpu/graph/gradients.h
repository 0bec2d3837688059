#pragma once
// The gradients of a program during differentiation (differentiate.h): what the entries of the
// operator table use in order to append their backward operators.
#include <string>
#include <utility>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

// What a backward operator reads of an operator's weight and bias.
enum class Reads { kNothing, kWeight };
// Whether a backward operator can add the gradient that it computes to an earlier part of the sum.
enum class Adds { kNo, kYes };

class Gradients {
 public:
  explicit Gradients(Graph graph);

  const Graph& graph() const { return graph_; }
  // Appends operators that set to +0 the gradients of trained parameters that no operator writes.
  void clear_untouched();
  // Ends the differentiation, which has appended the operators from `first` on.
  Graph take_graph(std::size_t first);

  // Returns the gradient of a tensor as far as it is known; kNoTensor: no operator has emitted one.
  TensorId of(TensorId t) const { return gradient_[static_cast<std::size_t>(t)]; }
  bool needed(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)].needs_grad; }

  TensorId add_tensor(const TensorShape& shape);
  // Adds a tensor whose elements all have this value.
  TensorId add_constant(const std::string& name, const TensorShape& shape, float value);
  // The next operators belong to the region of the operator that is differentiated.
  void set_region(std::uint32_t region) { region_ = region; }
  void append(Op op) {
    op.region = region_;
    graph_.ops.push_back(std::move(op));
  }
  // Appends an operator with a new tensor as its output, and returns the output.
  TensorId emit_new(Op op, const TensorShape& shape);
  // Appends a backward operator that has the attributes of `forward`.
  void emit(const Op& forward, OpKind kind, std::vector<TensorId> in, std::vector<TensorId> out);
  // Appends an operator whose single output is a contribution to the gradient of tensor x, if x
  // needs one.
  void emit_data_grad(const Op& forward, OpKind kind, std::vector<TensorId> in, TensorId x,
                      Reads reads = Reads::kNothing);
  // Append an operator that writes the gradient of the weight or of the bias, if the operator has
  // it and it needs a gradient. If the weight is a tensor whose gradient has earlier contributions,
  // an operator that adds gets their sum as its last input, and its result is the new sum.
  void emit_weight_grad(const Op& forward, OpKind kind, std::vector<TensorId> in,
                        Adds adds = Adds::kNo);
  void emit_bias_grad(const Op& forward, OpKind kind, std::vector<TensorId> in);
  // Appends an operator that reads weight and bias, and writes the gradients of both and of the
  // operator's input.
  void emit_norm_grad(const Op& forward, OpKind kind, std::vector<TensorId> in);
  // Appends a chain with one stage, and returns its result, which has the shape of dy.
  TensorId emit_chain(const std::string& name, TensorId dy, ChainStep step,
                      TensorId operand = kNoTensor);
  // Adds a contribution to the gradient of x. The sum of earlier contributions is the left operand,
  // so the order of emission fixes the order of additions.
  void contribute(const std::string& name, TensorId x, TensorId dx);
  // `sum` has all contributions to the gradient of x until now.
  void replace(TensorId x, TensorId sum);

 private:
  // The gradient of x is stored as x is. A gradient that an operator passes on without a copy stays
  // as it is.
  void store_like(TensorId dx, TensorId x);
  // A view of a gradient is the same memory.
  void store_views(std::size_t first);

  TensorId weight_of(const Op& op) const;
  TensorId bias_of(const Op& op) const;

  Graph graph_;
  std::vector<TensorId> gradient_;  // [tensor]; kNoTensor: none yet
  // [tensor]: it was there before, or is a constant, or store_like() has decided.
  std::vector<bool> storage_decided_;
  std::uint32_t region_ = 0;
};

}  // namespace es::gpu
