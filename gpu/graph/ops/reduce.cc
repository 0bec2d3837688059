// Reductions over neighbouring axes, indices of extremes, running sums, and rows that integers
// select.
#include "gpu/canonical/phases.h"
#include "gpu/graph/emit.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/scratch.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

Fold fold_of(Reduction kind) {
  if (kind == Reduction::kProd) return Fold::kProduct;
  ES_CHECK(kind == Reduction::kMax || kind == Reduction::kMin);
  return kind == Reduction::kMax ? Fold::kMaximum : Fold::kMinimum;
}

std::string reduce_detail(const Op& op) {
  constexpr const char* kNames[] = {"sum", "mean", "max", "min", "prod"};
  return std::string(kNames[static_cast<std::size_t>(op.along.kind)]) +
         (op.along.in_rows ? " of rows" : " of columns");
}

// --- Gradients.

// A program over the shape of x. Its inputs are x (0) and tensors without the reduced axes.
struct Unreduced {
  CodeWriter writer;
  std::vector<ProgramOperand> operands;
  TensorShape shape;
  AxisSet axes;

  Unreduced(const Gradients& g, const Op& op)
      : shape(g.graph().shape(op.in[0])), axes(op.along.axes) {
    operands.push_back({op.in[0], repeated_strides(shape, shape)});
  }
  Term repeated(TensorId t) {
    operands.push_back({t, unreduced_strides(shape, axes)});
    return writer.input(static_cast<std::int32_t>(operands.size()) - 1);
  }
  TensorId emit(Gradients& g, const std::string& name, Term result) {
    return g.emit_new(program_op(name, writer, {result}, shape, operands), shape);
  }
};

// All elements that are equal to the maximum or minimum y share dy equally, as in PyTorch's amax.
// The first program marks them with 1, a sum counts them, and the second program gives each of them
// dy divided by their number.
TensorId extreme_gradient(Gradients& g, const Op& op, TensorId dy) {
  Unreduced ties(g, op);
  const Term x = ties.writer.input(0);
  const TensorId tied = ties.emit(g, op.name, emit(ElementOp::kEqual, x, ties.repeated(op.out[0])));
  Op sum{.kind = OpKind::kReduce, .name = op.name, .in = {tied}, .along = op.along};
  sum.along.kind = Reduction::kSum;
  const TensorId count = g.emit_new(std::move(sum), g.graph().shape(op.out[0]));
  Unreduced shared(g, op);
  const Term wins = emit(ElementOp::kEqual, shared.writer.input(0), shared.repeated(op.out[0]));
  const Term share = shared.repeated(dy) / shared.repeated(count);
  return shared.emit(g, op.name, emit(ElementOp::kSelect, wins, share, number(wins, 0.0F)));
}

// dy times the product of the other elements: (dy * y) / x unless x is 0. A single 0 gets dy times
// the product of the others, in which a 1 stands for it. If there are two or more, the product of
// the others contains a 0, so all gradients are 0.
TensorId product_gradient(Gradients& g, const Op& op, TensorId dy) {
  const auto reduced = [&](Reduction kind, TensorId x) {
    Op reduction{.kind = OpKind::kReduce, .name = op.name, .in = {x}, .along = op.along};
    reduction.along.kind = kind;
    return g.emit_new(std::move(reduction), g.graph().shape(op.out[0]));
  };
  const auto is_zero = [](Term x) { return emit(ElementOp::kEqual, x, number(x, 0.0F)); };
  Unreduced flags(g, op), factors(g, op), whole(g, op);
  const Term flag = is_zero(flags.writer.input(0)), factor = factors.writer.input(0);
  const TensorId zeros = reduced(Reduction::kSum, flags.emit(g, op.name, flag));
  const TensorId others = reduced(
      Reduction::kProd,
      factors.emit(g, op.name,
                   emit(ElementOp::kSelect, is_zero(factor), number(factor, 1.0F), factor)));
  const Term x = whole.writer.input(0), dy_term = whole.repeated(dy);
  const Term quotient = (dy_term * whole.repeated(op.out[0])) / x;
  const Term only = emit(ElementOp::kEqual, whole.repeated(zeros), number(x, 1.0F));
  const Term of_zero =
      emit(ElementOp::kSelect, only, dy_term * whole.repeated(others), number(x, 0.0F));
  return whole.emit(g, op.name, emit(ElementOp::kSelect, is_zero(x), of_zero, quotient));
}

void reduce_gradient(Gradients& g, const Op& op) {
  const TensorId dy = g.of(op.out[0]);
  Unreduced whole(g, op);
  if (op.along.kind == Reduction::kSum)
    return g.contribute(op.name, op.in[0], whole.emit(g, op.name, whole.repeated(dy)));
  if (op.along.kind == Reduction::kProd)
    return g.contribute(op.name, op.in[0], product_gradient(g, op, dy));
  g.contribute(op.name, op.in[0], extreme_gradient(g, op, dy));
}

void running_sum_gradient(Gradients& g, const Op& op) {
  Op back{.kind = OpKind::kRunningSum, .name = op.name, .in = {g.of(op.out[0])}, .along = op.along};
  // y[i] = x[0] + ... + x[i], so x[i] is a term of y[i] and of all later ones, and its gradient is
  // the running sum of dy from the end.
  back.along.reverse = !op.along.reverse;
  g.contribute(op.name, op.in[0], g.emit_new(std::move(back), g.graph().shape(op.in[0])));
}

// --- Sums down columns on a CPU: one matrix is shared by threads as in phases.h; of several
// matrices, a thread sums whole ones.

Scratch matrix_scratch(const KernelTable& k, const AlongAxis& a, int threads) {
  // One matrix is summed in phases that all threads share, with one workspace. Several matrices are
  // summed at once, each with a workspace of its own.
  Scratch scratch(a.outer == 1 ? 1 : threads);
  scratch.cover(k.colsum_workspace_floats(a.count, a.inner));
  return scratch;
}

void sum_matrices(const OnCpu& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  float* const ws = run.buffers.workspace;
  if (a.outer == 1) return colsum(on.kernels, a.count, a.inner, run.in(0), run.out(0), ws, run);
  const Scratch scratch = matrix_scratch(on.kernels, a, run.threads());
  const Cut cut = cut_rows(a.outer, a.count * a.inner, run.threads());
  run.parts(cut.parts, [&](int part) {
    for (std::int64_t i = cut.begin(part); i < cut.end(part); ++i)
      colsum(on.kernels, a.count, a.inner, run.in(0) + i * a.count * a.inner,
             run.out(0) + i * a.inner, scratch.of_part(ws, part), Alone());
  });
}

void fold_matrices(const OnCpu& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  const Fold fold = fold_of(a.kind);
  if (a.outer == 1)
    return share_columns(a.inner, a.count, run, [&](std::int64_t begin, std::int64_t end) {
      on.kernels.fold_columns(fold, a.count, a.inner, begin, end, run.in(0), run.out(0));
    });
  run.share(a.outer, a.count * a.inner, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      on.kernels.fold_columns(fold, a.count, a.inner, 0, a.inner, run.in(0) + i * a.count * a.inner,
                              run.out(0) + i * a.inner);
  });
}

// --- Execution.

template <class On>
void reduce_rows(const On& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  run.share(a.outer, a.count, [&](std::int64_t begin, std::int64_t end) {
    const float* const x = run.in(0) + begin * a.count;
    float* const y = run.out(0) + begin;
    if (a.kind == Reduction::kSum) return on(on.kernels.sum_rows, end - begin, a.count, x, y);
    on(on.kernels.fold_rows, fold_of(a.kind), end - begin, a.count, x, y);
  });
}

void run_reduce(const OnCpu& on, const OpRun& run) {
  if (run.op.along.in_rows) return reduce_rows(on, run);
  if (run.op.along.kind == Reduction::kSum) return sum_matrices(on, run);
  fold_matrices(on, run);
}

void queue_reduce(const OnDevice& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  if (a.in_rows) return reduce_rows(on, run);
  if (a.kind == Reduction::kSum)
    return on(on.kernels.sum_matrices, a.outer, a.count, a.inner, run.in(0), run.out(0),
              run.buffers.workspace);
  on(on.kernels.fold_columns, fold_of(a.kind), a.outer, a.count, a.inner, run.in(0), run.out(0));
}

template <class On>
void best_index(const On& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  run.share(a.outer, a.count, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.best_indices, fold_of(a.kind), end - begin, a.count, run.in(0) + begin * a.count,
       reinterpret_cast<std::int32_t*>(run.out(0)) + begin);
  });
}

template <class On>
void running_sum(const On& on, const OpRun& run) {
  const AlongAxis& a = run.op.along;
  const std::int64_t block = a.count * a.inner;
  run.share(a.outer, block, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.running_sums, end - begin, a.count, a.inner, a.reverse, run.in(0) + begin * block,
       run.out(0) + begin * block);
  });
}

// --- Rows that integers select: the kernels of embeddings, with a tensor in place of the table.
// Taking rows and adding rows at places are each other's gradient.

template <class On>
void take_rows(const On& on, const OpRun& run) {
  const std::int64_t c = run.in_shape(0).count() / run.in_shape(0).front();
  run.share(run.in_shape(1).count(), c, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.embedding_fwd, end - begin, c, run.in(0), run.ids(1) + begin,
       run.out(0) + begin * c);
  });
}

// Calls with(count, c, rows): positions, elements of a row, rows of the result.
template <class Call>
auto with_added_rows(const OpShapes& op, Call&& with) {
  const std::int64_t rows = op.out_shape().front();
  return with(op.in_shape(1).count(), op.out_shape().count() / rows, rows);
}

void run_add_rows(const OnCpu& on, const OpRun& run) {
  with_added_rows(run, [&](std::int64_t count, std::int64_t c, std::int64_t rows) {
    embedding_bwd(on.kernels, count, c, rows, run.ids(1), run.in(0), nullptr, run.out(0),
                  run.buffers.workspace, run);
  });
}
void queue_add_rows(const OnDevice& on, const OpRun& run) {
  with_added_rows(run, [&](std::int64_t count, std::int64_t c, std::int64_t rows) {
    on(on.kernels.embedding_bwd, count, c, rows, run.ids(1), run.in(0), nullptr, run.out(0),
       run.buffers.workspace);
  });
}

constexpr Operator kReduceOperators[] = {
    {.kind = OpKind::kReduce,
     .name = "reduce",
     .kernels = "sum_rows, colsum, fold_rows, fold_columns, program",
     .detail = reduce_detail,
     .stored = Stored::kF32,
     .gradient = reduce_gradient,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     const AlongAxis& a = op.op.along;
                     const bool sums = a.kind == Reduction::kSum && !a.in_rows;
                     return sums ? matrix_scratch(k, a, threads).all() : 0;
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     const AlongAxis& a = op.op.along;
                     const bool sums = a.kind == Reduction::kSum && !a.in_rows;
                     return sums ? k.sum_matrices_workspace_floats(a.outer, a.count, a.inner) : 0;
                   }},
     .run = {run_reduce, queue_reduce}},
    {.kind = OpKind::kBestIndex,
     .name = "best index",
     .kernels = "best_indices",
     .detail = reduce_detail,
     .run = [](const auto& on, const OpRun& run) { best_index(on, run); }},
    {.kind = OpKind::kRunningSum,
     .name = "running sum",
     .kernels = "running_sums",
     .stored = Stored::kF32,
     .gradient = running_sum_gradient,
     .run = [](const auto& on, const OpRun& run) { running_sum(on, run); }},
    {.kind = OpKind::kTakeRows,
     .name = "take rows",
     .kernels = "embedding_fwd, embedding_bwd",
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kAddRowsAt, {g.of(op.out[0]), op.in[1]}, op.in[0]);
         },
     .run = [](const auto& on, const OpRun& run) { take_rows(on, run); }},
    {.kind = OpKind::kAddRowsAt,
     .name = "add rows at",
     .kernels = "embedding_bwd, embedding_fwd",
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kTakeRows, {g.of(op.out[0]), op.in[1]}, op.in[0]);
         },
     .workspace =
         [](const auto& k, const OpShapes& op) {
           return with_added_rows(op, [&](std::int64_t count, std::int64_t, std::int64_t rows) {
             return k.embedding_bwd_workspace_floats(count, rows);
           });
         },
     .run = {run_add_rows, queue_add_rows}},
};

}  // namespace

std::span<const Operator> reduce_operators() {
  return kReduceOperators;
}

}  // namespace es::gpu
