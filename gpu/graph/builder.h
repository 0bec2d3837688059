#pragma once
// GraphBuilder describes a model operator by operator.
//
//   GraphBuilder b("mlp", batch, layout);
//   TensorId x = b.flatten("flatten", b.input("image"));
//   x = b.relu("relu1", b.linear("fc1", x, {.out = 32}));
//   ...
//   b.cross_entropy("loss", logits, b.input("label"));
//   Result<Graph> graph = b.finish({logits});
//
// Tensors have up to kRankMax dimensions, and their rows are contiguous. Operators on images take
// [n,h,w,c]; tokens are [n,t,1,c], matrices [n,1,1,c]. After the first error every call returns
// without effect, and finish() returns that error with the name of the operator; so a model needs
// only one check. Parameters are laid out in the order of the calls. Element-wise operators that
// follow each other are fused later (fuse.h).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/graph/functions.h"
#include "gpu/graph/graph.h"
#include "gpu/graph/move_shapes.h"
#include "gpu/graph/weight_init.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

struct Conv2dOptions {
  std::int64_t out = 1;  // output channels
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t groups = 1;
  bool bias = false;
  WeightInit init = {};
};

struct LinearOptions {
  std::int64_t out = 1;
  bool bias = true;
  WeightInit init = {};
};

struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t pad = 0;
  std::int64_t kernel_w = 0;          // 0: as kernel
  std::int64_t stride_w = 0;          // 0: as stride
  std::int64_t pad_w = -1;            // -1: as pad
  std::int64_t end_h = 0, end_w = 0;  // more padding below and on the right
};

struct BatchNormOptions {
  Activation activation = Activation::kNone;
};

struct ReluFused {
  bool relu = false;
};

// Q, k and v are tensors [n,t,1,heads*d], or one packed tensor [n,t,1,3*heads*d] (q, then k, then
// v). Or q is [n,heads,t,d], and k and v are [n,groups,s,d]; a group serves heads/groups heads.
struct AttentionOptions {
  std::int64_t heads = 1;
  std::optional<float> scale;  // of the scores; absent: 1 / sqrt(d)
  bool causal = false;         // keys after the query take no part. REQUIRES: s <= t
  // [1,heads,t,s]; may depend on parameters, unless heads share keys
  TensorId bias = kNoTensor;
  // Constant [m, 1 or heads, 1 or t, s]; sequence b uses the mask b mod m.
  TensorId mask = kNoTensor;
  TensorId length = kNoTensor;  // i32 [n,1,1,1]: number of keys in use
  TensorId first = kNoTensor;   // i32 [n,t]: the first key that a query sees
  double dropout = 0.0;         // dropout probability of the attention probabilities
};

// The rows of which a loss is the weighted mean (Graph::row_loss, Graph::row_weight).
struct LossRows {
  TensorId losses = kNoTensor;   // kNoTensor: they are not known
  TensorId weights = kNoTensor;  // kNoTensor: all are 1
};

class GraphBuilder {
 public:
  // `table` has what the model shares with other programs of it; a model of one program adds all of
  // that here.
  GraphBuilder(std::string model, std::int64_t batch, const SampleLayout& layout,
               ParamTable table = {});

  // Returns the tensor [batch, height, width, channels] of the field. Error: there is no such
  // field.
  TensorId input(std::string_view field);
  const TensorShape& shape(TensorId t) const { return graph_.shape(t); }
  // REQUIRES: a tensor of rank 4; what a call returns after an error is one.
  ImageShape image(TensorId t) const { return image_of(shape(t)); }
  ElementType type(TensorId t) const { return tensor(t).type; }
  bool needs_grad(TensorId t) const { return tensor(t).needs_grad; }
  // Every element of a tensor of integers is in [first, second].
  std::pair<std::int32_t, std::int32_t> range(TensorId t) const {
    const Note& known = notes_[static_cast<std::size_t>(t)];
    return {known.low, known.high};
  }
  // Returns the largest value of an integer field; 0 for other fields and after an error.
  std::int32_t high(std::string_view field) const;

  // Constants that belong to the model.
  TensorId constant(const std::string& name, TensorShape shape, std::vector<float> values);
  TensorId constant_ids(const std::string& name, TensorShape shape,
                        std::vector<std::int32_t> values);

  // Appends any operator that has a shape rule (ops/operator.h), and returns its first output. `op`
  // has a kind, a name, inputs, and the attributes that do not follow from the inputs. The
  // functions below do the same for one operator each; they also create its parameters and check
  // ranges of integers.
  TensorId apply(Op op);

  // Creates the parameter of an operator that apply() appends. REQUIRES: no other one has its name.
  ParamId parameter(ParamInfo info) { return graph_.table.add(std::move(info)); }
  const ParamTable& table() const { return graph_.table; }
  // Returns a parameter as a tensor of this shape, in the parameter's order of elements. `trained`:
  // by this program. REQUIRES: it is trained by any.
  TensorId parameter_tensor(ParamId param, const TensorShape& shape, bool trained = true);
  // Creates a state. REQUIRES: no other one has its name. Returns its place (Op::state).
  std::int64_t add_state(std::string name, std::vector<std::int64_t> torch_shape,
                         std::string dtype) {
    return graph_.table.add_state(std::move(name), std::move(torch_shape), std::move(dtype));
  }
  // The content of a state at the beginning of the step or evaluation. Integers may be any.
  // REQUIRES: the shape is that of the state.
  TensorId state(const std::string& name, std::int64_t place, const TensorShape& shape,
                 ElementType type);
  // Returns x, which is the content of the state in the next step. In an evaluation it returns the
  // present content, and writes nothing. REQUIRES: x has the shape and type of the state, and no
  // other call has this place.
  TensorId set_state(const std::string& name, std::int64_t place, TensorId x);
  // Creates the statistics of a batch norm that apply() appends.
  BatchNormStats statistics(std::string mean, std::string variance, std::int64_t channels);

  // `name` is the path of the module in the state dict. Its parameters are NAME.weight and
  // NAME.bias, its statistics NAME.running_mean and NAME.running_var.
  TensorId conv2d(const std::string& name, TensorId x, const Conv2dOptions& options);
  // Works on the last axis of any tensor.
  TensorId linear(const std::string& name, TensorId x, const LinearOptions& options);
  TensorId batch_norm(const std::string& name, TensorId x, BatchNormOptions options = {});
  TensorId layer_norm(const std::string& name, TensorId x, double eps);
  // ids i32 [n,h,w,1] -> [n,h,w,out]; NAME.weight is [rows][out]. The model is refused if the range
  // of the ids in the layout exceeds [0, rows). The engine refuses a batch with an id outside the
  // layout's range before the step, so the kernels never see a wrong id.
  TensorId embedding(const std::string& name, TensorId ids, std::int64_t rows, std::int64_t out,
                     WeightInit init);
  // Like embedding(), for a parameter whose name in the state dict is not NAME.weight (Swin's bias
  // tables).
  TensorId lookup(const std::string& parameter, TensorId ids, std::int64_t rows, std::int64_t out,
                  WeightInit init);

  // Element-wise operators.
  TensorId relu(const std::string& name, TensorId x);
  TensorId leaky_relu(const std::string& name, TensorId x, float slope);
  TensorId gelu(const std::string& name, TensorId x);
  TensorId tanh(const std::string& name, TensorId x);
  TensorId sigmoid(const std::string& name, TensorId x);
  TensorId scale(const std::string& name, TensorId x, float factor);
  TensorId add(const std::string& name, TensorId a, TensorId b, ReluFused fused = {});
  TensorId mul(const std::string& name, TensorId a, TensorId b);
  // a + row, where `row` is [1,h,w,c] and is repeated over n (position embeddings).
  TensorId add_rows(const std::string& name, TensorId a, TensorId row);
  // Sets the number of the next operator that draws random numbers. By default these operators are
  // numbered in the order of the calls.
  void set_site(std::uint32_t site) { random_ops_ = site; }
  // The next operators belong to this region (recompute.h); 0, as in the beginning: to none.
  void set_region(std::uint32_t region) { region_ = region; }
  // Both do nothing in evaluation and if p = 0. drop_path drops whole samples.
  TensorId dropout(const std::string& name, TensorId x, double p);
  TensorId drop_path(const std::string& name, TensorId x, double p);
  // Drops whole indices of the first axis.
  TensorId drop_rows(const std::string& name, TensorId x, double p);
  // Random numbers in [0, 1), also in evaluation.
  TensorId uniform(const std::string& name, const TensorShape& shape);

  // --- General element-wise operators. Operands are broadcast as in PyTorch: their shapes are
  // aligned at the last axis, and an axis of extent 1 is repeated. Tensors are fp32 unless stated;
  // truth values are the fp32 numbers 1 and +0. functions.h lists the functions.
  TensorId unary(const std::string& name, Function function, TensorId x,
                 FunctionParameters parameters = {});
  // kAdd, kSub and kMul of two tensors of integers give integers (modulo 2^32), and so do kMaximum
  // and kMinimum; a comparison of two tensors of integers gives truth values. Error: a number and
  // an integer.
  TensorId binary(const std::string& name, Function function, TensorId a, TensorId b);
  // condition != 0 ? a : b, for two tensors of numbers or two of integers.
  TensorId where(const std::string& name, TensorId condition, TensorId a, TensorId b);
  // The integers 0, 1, ..., count - 1.
  TensorId numbers(const std::string& name, std::int64_t count);
  // Integers below `low` become `low`, and those above `high` become `high`.
  TensorId limit(const std::string& name, TensorId x, std::int32_t low, std::int32_t high);
  // Numbers to integers (truncated; saturates; NaN gives 0), or integers to numbers (rounded to
  // nearest). A tensor that has the type already is returned as it is. Truth values of integers are
  // binary(kNotEqual) with a constant 0.
  TensorId cast(const std::string& name, TensorId x, ElementType to);
  // One instruction of program.h on the words of the operands, which are broadcast: integers, or
  // truth values for kLessLong and kBeyondLong and numbers for kFromLong. It has no gradient.
  // REQUIRES: as many operands as the instruction has.
  TensorId words(const std::string& name, ElementOp op, const std::vector<TensorId>& xs);
  // Says that integers are in [low, high].
  void set_range(TensorId x, std::int32_t low, std::int32_t high) {
    if (failed()) return;
    note(x).low = low;
    note(x).high = high;
  }
  // Repeats axes of extent 1, and adds axes in front. Also for integers.
  TensorId expand(const std::string& name, TensorId x, TensorShape shape);
  // The same values, without a gradient.
  TensorId stop_gradient(const std::string& name, TensorId x);

  // --- Reductions. `axes` are distinct, in [0, rank), and in any order; keepdim keeps them with
  // extent 1. Without keepdim, a reduction of all axes gives shape [1]. Integers have sums (modulo
  // 2^32), maxima and minima.
  TensorId reduce(const std::string& name, Reduction kind, TensorId x, const std::vector<int>& axes,
                  bool keepdim);
  // The mean of (x - mean)^2, with the divisor n - correction, which must be above 0.
  TensorId variance(const std::string& name, TensorId x, const std::vector<int>& axes, bool keepdim,
                    std::int64_t correction);
  // log(sum(exp(x))), with the maximum subtracted before exp.
  TensorId logsumexp(const std::string& name, TensorId x, const std::vector<int>& axes,
                     bool keepdim);
  // The index of the largest or smallest element along the axis, as an integer: the lowest index of
  // equal elements. The first NaN, if there is one. Also for integers. REQUIRES: kMax or kMin.
  TensorId arg_reduce(const std::string& name, Reduction kind, TensorId x, int axis, bool keepdim);
  // y[i] = x[0] + ... + x[i] along the axis: for numbers as one chain of additions, for integers
  // modulo 2^32.
  TensorId cumsum(const std::string& name, TensorId x, int axis);
  // y[i...] = x[ids[i...], ...] for x [r, ...] and integers in [0, r). The gradient of a row is the
  // sum over the places that read it, as for embeddings. Also for integers.
  TensorId take_rows(const std::string& name, TensorId x, TensorId ids);
  // y[r, ...] = the sum over i... of x[i..., ...] with ids[i...] = r, in the order of the gradient
  // of take_rows; +0 if there is none. y has `rows` rows, and the integers are in [0, rows).
  TensorId add_rows_at(const std::string& name, TensorId x, TensorId ids, std::int64_t rows);

  TensorId softmax(const std::string& name, TensorId x);
  TensorId attention(const std::string& name, TensorId q, TensorId k, TensorId v,
                     const AttentionOptions& options);
  TensorId attention(const std::string& name, TensorId packed_qkv, const AttentionOptions& options);
  // Q is [n,heads,t,d], k and v are [n,groups,s,d]. `options.heads` is not used.
  TensorId attention_by_head(const std::string& name, TensorId q, TensorId k, TensorId v,
                             const AttentionOptions& options);
  // Batched over n and h: a [n,h,m,k] times b [n,h,k,p], or times b [n,h,p,k] with transpose_b. Any
  // number of dimensions may stand in place of n and h.
  TensorId matmul(const std::string& name, TensorId a, TensorId b, bool transpose_b = false);

  TensorId max_pool(const std::string& name, TensorId x, const PoolOptions& options);
  TensorId avg_pool(const std::string& name, TensorId x, const PoolOptions& options);
  TensorId adaptive_avg_pool(const std::string& name, TensorId x, std::int64_t h, std::int64_t w);
  TensorId global_avg_pool(const std::string& name, TensorId x);

  // Operators that move data. Their forward pass has no arithmetic.
  TensorId reshape(const std::string& name, TensorId x, TensorShape shape);
  // [n,h,w,c] -> [n,1,1,h*w*c]. PyTorch flattens [c,h,w], so the import and export of weights
  // permute the columns of a linear layer that follows. Therefore only element-wise operators may
  // stand between flatten and that linear layer.
  TensorId flatten(const std::string& name, TensorId x);
  TensorId concat(const std::string& name, const std::vector<TensorId>& xs, int axis);
  TensorId slice(const std::string& name, TensorId x, int axis, std::int64_t begin,
                 std::int64_t count);
  std::vector<TensorId> split(const std::string& name, TensorId x, int axis, std::int64_t parts);
  // `count` elements from `begin` at a distance of `step`, which is not 0.
  TensorId strided_slice(const std::string& name, TensorId x, int axis, std::int64_t begin,
                         std::int64_t step, std::int64_t count);
  TensorId pad(const std::string& name, TensorId x, int axis, std::int64_t before,
               std::int64_t after);  // the padding is +0
  // Axis i of the result is axis order[i] of x.
  TensorId permute(const std::string& name, TensorId x, const std::vector<int>& order);
  // y[i] = x[(i - shift) mod size], as in torch.roll.
  TensorId roll(const std::string& name, TensorId x, int axis, std::int64_t shift);
  // [n,h,w,c] -> [n*(h/s)*(w/s), s*s, 1, c] and back. h and w are multiples of the side s.
  TensorId window_partition(const std::string& name, TensorId x, std::int64_t side);
  TensorId window_reverse(const std::string& name, TensorId windows, std::int64_t side,
                          ImageShape image);
  TensorId upsample2(const std::string& name, TensorId x);
  TensorId channel_shuffle(const std::string& name, TensorId x, std::int64_t groups);
  // Gives the same bits as split(channel_shuffle(concat({a, b}), 2), 2) in one pass (ShuffleNetV2).
  std::pair<TensorId, TensorId> concat_shuffle_split(const std::string& name, TensorId a,
                                                     TensorId b);

  // --- Losses. A model has exactly one. A loss is the mean over everything that takes part.
  // logits [n,h,w,classes], labels i32 with n*h*w values. A row with a negative label takes no
  // part.
  void cross_entropy(const std::string& name, TensorId logits, TensorId labels,
                     const LossTerms& terms = {});
  void bce_with_logits(const std::string& name, TensorId logits, TensorId targets);
  void mse(const std::string& name, TensorId x, TensorId targets);
  // Any number [1] is the loss. If it is the sum of the losses of rows divided by the sum of their
  // weights, `rows` has these (Graph::row_loss); otherwise the loss of each sample is that of its
  // mini-batch. REQUIRES: a sample has as many rows as each other one, in the order of the samples.
  void scalar_loss(const std::string& name, TensorId x, const LossRows& rows = {});
  // Says that each row of the loss depends on all samples of the mini-batch (Graph::loss_of_batch).
  void set_loss_of_batch() { graph_.loss_of_batch = true; }
  // Outputs: three tensors [n,h,w,3*(5+classes)], coarse to fine. boxes: [n,M,1,5] or [n,M,5,1], as
  // the field is laid out. YoloShape::anchor_* is given for each scale, in pixels.
  void yolo(const std::string& name, const std::vector<TensorId>& outputs, TensorId boxes,
            const YoloShape& shape, std::int64_t image_h, std::int64_t image_w);

  // Completes the model, which may have operators without a reader and parameters without influence
  // on the loss. Their gradients are +0.
  Result<Graph> finish_any(const std::vector<TensorId>& outputs);
  // Completes the model. `outputs` are what an evaluation returns, in this order. Error (usage):
  // the first operator whose shapes do not fit, an operator without a reader, a missing loss.
  Result<Graph> finish(const std::vector<TensorId>& outputs);

  // Returns whether an operator was refused. Then the tensors that later calls return mean nothing,
  // and finish() returns the error.
  bool failed() const { return error_.has_value(); }

 private:
  // What is known about a tensor beyond its shape.
  struct Note {
    // If the tensor is a flattened image: the numbers of its pixels and channels.
    std::int64_t pixels = 1, channels = 1;
    std::int32_t low = 0, high = 0;  // for kI32: every value is in [low, high]
  };

  // Records the first error. Returns a valid tensor id; later calls return early.
  TensorId fail(const char* kind, const std::string& name, const std::string& what);
  // Returns whether all tensors are fp32 and none is a flattened image. Otherwise records an error.
  bool dense_floats(const char* kind, const std::string& name, const std::vector<TensorId>& xs);
  bool floats(const char* kind, const std::string& name, const std::vector<TensorId>& xs);
  // Returns whether the tensor has rank 4. Otherwise records an error.
  bool image_input(const char* kind, const std::string& name, TensorId x);
  const Tensor& tensor(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)]; }
  Note& note(TensorId t) { return notes_[static_cast<std::size_t>(t)]; }

  TensorId add_tensor(const TensorShape& shape, bool needs_grad,
                      ElementType type = ElementType::kF32);
  TensorId add_constant(const std::string& name, TensorShape shape, ElementType type,
                        std::vector<float> words);
  // Checks the inputs, and returns the outputs by the operator's shape rule, which completes its
  // attributes; nothing after an error. append() follows when the parameters are in `op`.
  std::optional<std::vector<Tensor>> outputs_of(Op& op);
  bool check_inputs(const Op& op);
  TensorId append(Op op, std::vector<Tensor> outputs);
  void push(Op op);  // the last step of every function that adds an operator
  ParamId add_param(const std::string& name, std::vector<std::int64_t> torch_shape,
                    ParamOrder order, ParamInit init);

  TensorId chain(const std::string& name, const std::vector<TensorId>& xs, ChainStep step);
  TensorId same_shapes(const char* kind, const std::string& name, TensorId a, TensorId b,
                       ChainKind step);
  TensorId element_wise(const std::string& name, Function function, const std::vector<TensorId>& xs,
                        FunctionParameters parameters, Tensor to);
  std::optional<TensorShape> common_shape(const char* kind, const std::string& name,
                                          const std::vector<TensorId>& xs);
  void set_range(Function function, TensorId a, TensorId b, TensorId y);
  void set_sum_range(TensorId x, std::int64_t fewest, std::int64_t most, TensorId y);
  TensorId integer_cumsum(const std::string& name, TensorId x, int axis);
  TensorId integer_reduce(const std::string& name, Reduction kind, TensorId x,
                          const std::vector<int>& axes, bool keepdim);
  TensorId integer_sum(const std::string& name, TensorId a, TensorId b);
  TensorId integer_maximum(const std::string& name, TensorId a, TensorId b);
  TensorId integer_minimum(const std::string& name, TensorId a, TensorId b);
  using Combine = TensorId (GraphBuilder::*)(const std::string&, TensorId, TensorId);
  TensorId halve(const std::string& name, TensorId x, int axis, Combine combine, bool once);
  TensorId any_integer(TensorId t);
  bool valid_rows(const char* kind, const std::string& name, TensorId ids, std::int64_t rows);
  std::optional<std::uint32_t> axis_set(const char* kind, const std::string& name, TensorId x,
                                        const std::vector<int>& axes);
  Dropout next_dropout(double p);
  TensorId drop(const char* kind, const std::string& name, TensorId x, double p,
                std::int64_t columns);
  TensorId normalise(Op op, std::int64_t channels, std::vector<Tensor> outputs);
  TensorId attend(Op op, const AttentionOptions& o);
  bool add_attention_extras(Op& op, const AttentionOptions& o);
  std::vector<TensorId> move(const char* label, const std::string& name,
                             const std::vector<TensorId>& xs, Move move,
                             const std::vector<TensorShape>& ys);
  bool valid_axis(const char* kind, const std::string& name, TensorId x, int axis);
  // Returns the outputs of a loss; nothing after an error.
  std::optional<std::vector<Tensor>> begin_loss(Op& op);
  void end_loss(Op op, std::vector<Tensor> outputs);
  void check_all_used();
  void check_all_trained();
  void check_outputs();
  void check_result(const std::vector<TensorId>& outputs);

  Graph graph_;
  std::optional<Error> error_;
  std::vector<Note> notes_;  // [tensor]
  std::uint32_t random_ops_ = 0;
  std::uint32_t region_ = 0;
};

}  // namespace es::gpu
