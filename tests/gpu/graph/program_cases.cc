// Models of one general element-wise operator or reduction each.
#include <doctest/doctest.h>

#include <functional>

#include "gpu/graph/builder.h"
#include "tests/gpu/graph/operator_cases.h"

namespace es::test {
namespace {

using namespace es::gpu;

constexpr std::int64_t kBatch = 3;
using Build = std::function<TensorId(GraphBuilder&)>;
using F = Function;

SampleLayout layout() {
  return {{{"image", FieldType::kF32, 6, 5, 4},
           {"rows", FieldType::kI32, 7, 1, 1, 0, 5},
           {"other", FieldType::kI32, 1, 5, 1, -3, 9}}};
}

// The distance of the result from numbers between 0 and 1 that are all different.
OperatorCase measured(const std::string& name, const Build& build) {
  GraphBuilder b(name, kBatch, layout());
  TensorId y = build(b);
  if (b.shape(y).count() % kBatch != 0) {  // A loss has as many terms for each sample.
    TensorShape repeated = {kBatch};
    for (int axis = 0; axis < b.shape(y).rank(); ++axis) repeated.append(b.shape(y)[axis]);
    y = b.expand("for samples", y, repeated);
  }
  const TensorShape s = b.shape(y);
  std::vector<float> target(static_cast<std::size_t>(s.count()));
  for (std::size_t i = 0; i < target.size(); ++i)
    target[i] = static_cast<float>(i * 37 % 101) / 101.0F;
  b.mse("loss", y, b.constant("target", s, target));
  const TensorId out = s.front() % kBatch == 0 ? y : b.global_avg_pool("out", b.input("image"));
  Result<Graph> graph = b.finish({out});
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return {name, std::move(*graph)};
}

// [3,6,5,c], about in [-2, 2].
TensorId image(GraphBuilder& b, std::int64_t channels = 4, const std::string& name = "stem") {
  return b.linear(name, b.input("image"), {.out = channels});
}
// The same, in [0.5, 1.5].
TensorId positive(GraphBuilder& b, std::int64_t channels = 4, const std::string& name = "stem") {
  const TensorId x = b.unary("sigmoid", F::kSigmoid, image(b, channels, name));
  return b.unary("raised", F::kAddScalar, x, {.a = 0.5F});
}
// [5,1]: repeated over n, h and c of an image.
TensorId column(GraphBuilder& b) {
  const TensorId x = b.reduce("mean", Reduction::kMean, positive(b, 4, "column"), {0, 1}, false);
  return b.slice("one", x, 1, 1, 1);
}

void add_functions(std::vector<OperatorCase>& cases) {
  const auto unary = [&](F f, FunctionParameters parameters = {}) {
    cases.push_back(measured(
        function_name(f), [&](GraphBuilder& b) { return b.unary("op", f, image(b), parameters); }));
  };
  for (const F f : {F::kNegate, F::kAbs, F::kSquare, F::kExp, F::kExpm1, F::kSin, F::kCos, F::kTanh,
                    F::kSigmoid, F::kErf, F::kGelu, F::kGeluTanh, F::kSilu, F::kHardswish,
                    F::kHardsigmoid, F::kMish, F::kRelu})
    unary(f);
  unary(F::kElu, {.a = 1.0F});
  unary(F::kElu, {.a = 0.7F});
  unary(F::kSoftplus, {.a = 1.0F});
  unary(F::kSoftplus, {.a = 2.5F});
  unary(F::kLeakyRelu, {.a = 0.2F});
  unary(F::kClamp, {.a = -0.5F, .b = 0.25F});
  unary(F::kClampMin, {.a = -0.5F});
  unary(F::kClampMax, {.b = 0.25F});
  unary(F::kAddScalar, {.a = 1.5F});
  unary(F::kMulScalar, {.a = -1.5F});
  unary(F::kPowScalar, {.a = 2.0F});
  unary(F::kPowScalar, {.a = 3.0F});
  const auto of_positive = [&](F f, FunctionParameters parameters = {}) {
    cases.push_back(
        measured(std::string(function_name(f)) + " of positive numbers",
                 [&](GraphBuilder& b) { return b.unary("op", f, positive(b), parameters); }));
  };
  for (const F f : {F::kSqrt, F::kRsqrt, F::kReciprocal, F::kLog, F::kLog1p}) of_positive(f);
  for (const float exponent : {0.5F, -0.5F, -1.0F, -2.0F, 1.7F, 1.0F})
    of_positive(F::kPowScalar, {.a = exponent});
}

void add_binary(std::vector<OperatorCase>& cases) {
  const auto add = [&](const std::string& name, const Build& build) {
    cases.push_back(measured(name, build));
  };
  for (const F f : {F::kAdd, F::kSub, F::kMul, F::kDiv, F::kMaximum, F::kMinimum, F::kPow}) {
    const std::string name = function_name(f);
    add(name + " of two", [&](GraphBuilder& b) {
      return b.binary("op", f, positive(b, 4, "a"), positive(b, 4, "b"));
    });
    add(name + " with broadcasting",
        [&](GraphBuilder& b) { return b.binary("op", f, column(b), positive(b)); });
    add(name + " where both are repeated", [&](GraphBuilder& b) {
      const TensorId row = b.reduce("row", Reduction::kMean, positive(b, 4, "a"), {1}, true);
      const TensorId other = b.reduce("other", Reduction::kMean, positive(b, 4, "b"), {2}, true);
      return b.binary("op", f, row, other);
    });
  }
  add("a value times itself", [](GraphBuilder& b) {
    const TensorId x = image(b);
    return b.binary("op", F::kMul, x, x);
  });
  add("where", [](GraphBuilder& b) {
    const TensorId x = image(b, 4, "a"), y = image(b, 1, "b");
    return b.where("op", b.binary("less", F::kLess, x, y), x, b.unary("twice", F::kSquare, y));
  });
  add("logic of comparisons", [](GraphBuilder& b) {
    const TensorId x = image(b, 4, "a"), y = image(b, 4, "b");
    const TensorId any = b.binary("or", F::kOr, b.binary("gt", F::kGreater, x, y),
                                  b.binary("le", F::kLessEqual, y, b.input("image")));
    const TensorId all = b.binary("and", F::kAnd, any, b.binary("ne", F::kNotEqual, x, y));
    return b.binary("op", F::kMul, b.binary("not", F::kAdd, b.unary("n", F::kNot, all), y), x);
  });
  add("integers", [](GraphBuilder& b) {
    const TensorId i = b.binary("sum", F::kMul, b.input("rows"), b.input("other"));
    const TensorId smaller = b.binary("lt", F::kLess, i, b.input("other"));
    const TensorId chosen = b.where("chosen", smaller, b.input("rows"), i);
    const TensorId x = b.linear("fc", b.cast("float", chosen, ElementType::kF32), {.out = 4});
    return b.where("op", b.binary("ge", F::kGreaterEqual, b.input("rows"), b.input("other")), x,
                   b.unary("half", F::kMulScalar, x, {.a = 0.5F}));
  });
  add("expand", [](GraphBuilder& b) { return b.expand("op", image(b, 1), {2, 3, 6, 5, 4}); });
  add("stop_gradient", [](GraphBuilder& b) {
    const TensorId x = image(b);
    const TensorId rounded = b.cast("back", b.cast("int", x, ElementType::kI32), ElementType::kF32);
    const TensorId fixed = b.unary("floor", F::kFloor, b.binary("plus", F::kAdd, x, rounded));
    return b.binary("op", F::kMul, fixed, x);
  });
}

void add_reductions(std::vector<OperatorCase>& cases) {
  const auto add = [&](const std::string& name, const Build& build) {
    cases.push_back(measured(name, build));
  };
  const std::vector<std::vector<int>> all_axes = {{3},    {2, 3}, {0},       {1, 2},
                                                  {0, 2}, {1, 3}, {0, 2, 3}, {0, 1, 2, 3}};
  for (const Reduction kind :
       {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin, Reduction::kProd})
    for (const std::vector<int>& axes : all_axes) {
      // The error of a product of 360 numbers exceeds the bound of the test.
      if (kind == Reduction::kProd && axes.size() == 4) continue;
      add("reduction " + std::to_string(int(kind)) + " from axis " + std::to_string(axes[0]) +
              " on, " + std::to_string(axes.size()),
          [&](GraphBuilder& b) {
            const bool product = kind == Reduction::kProd;
            const TensorId x = product ? positive(b) : image(b);
            return b.reduce("op", kind, x, axes, axes.size() == 2);
          });
    }
  add("variance", [](GraphBuilder& b) { return b.variance("op", image(b), {1, 3}, false, 1); });
  add("logsumexp", [](GraphBuilder& b) { return b.logsumexp("op", image(b), {2}, false); });
  add("cumsum",
      [](GraphBuilder& b) { return b.cumsum("last", b.cumsum("middle", image(b), 1), 3); });
  add("arg_reduce", [](GraphBuilder& b) {
    const TensorId x = image(b);
    const TensorId at = b.arg_reduce("op", Reduction::kMax, x, 1, true);
    return b.binary("use", F::kMul, b.cast("float", at, ElementType::kF32), x);
  });
  add("product with zeros", [](GraphBuilder& b) {
    // Of five factors none, one or two are 0.
    const TensorId x = positive(b);
    const TensorId zeros =
        b.binary("zeros", F::kLess, b.input("other"), b.constant_ids("0", {1}, {2}));
    const TensorId some = b.reshape("some", zeros, {3, 1, 5, 1});
    const TensorId y = b.where("with zeros", some, b.scale("none", x, 0.0F), x);
    return b.binary("sum", F::kAdd, b.reduce("op", Reduction::kProd, y, {2}, true),
                    b.reduce("of rows", Reduction::kProd, y, {2, 3}, true));
  });
  add("add_rows_at", [](GraphBuilder& b) {
    const TensorId x = b.slice("four", b.reshape("rows", image(b), {90, 4}), 0, 0, 21);
    const TensorId ids = b.reshape("ids", b.input("rows"), {21});
    return b.add_rows_at("op", x, ids, 6);
  });
  add("integers", [](GraphBuilder& b) {
    const TensorId ids = b.reshape("ids", b.input("other"), {3, 5});
    const TensorId sums = b.cumsum("cumsum", ids, 1);
    const TensorId rest = b.limit("limit", sums, 0, 17);
    const TensorId all = b.reduce("sum", Reduction::kSum, rest, {1}, true);
    const TensorId most = b.reduce("max", Reduction::kMax, ids, {0}, true);
    const TensorId large =
        b.reshape("numbers", b.slice("end", b.numbers("count", 9000), 0, 8995, 5), {1, 5});
    const TensorId total = b.binary("total", F::kAdd, b.binary("both", F::kAdd, all, most), large);
    const TensorId first = b.arg_reduce("first", Reduction::kMin, ids, 1, true);
    const TensorId y =
        b.cast("number", b.binary("with first", F::kAdd, total, first), ElementType::kF32);
    return b.binary("op", F::kMul, b.reshape("wide", b.scale("small", y, 1e-4F), {3, 1, 5, 1}),
                    image(b));
  });
  add("take_rows", [](GraphBuilder& b) {
    const TensorId x = b.permute("rows first", image(b), {1, 0, 2, 3});
    return b.take_rows("op", x, b.reshape("ids", b.input("rows"), {3, 7}));
  });
}

}  // namespace

std::vector<OperatorCase> program_cases() {
  std::vector<OperatorCase> cases;
  add_functions(cases);
  add_binary(cases);
  add_reductions(cases);
  return cases;
}

}  // namespace es::test
