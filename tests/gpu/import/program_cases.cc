#include "tests/gpu/import/program_cases.h"

#include <cmath>
#include <functional>

#include "tests/gpu/import/program_writer.h"

namespace es::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Extents = std::initializer_list<std::int64_t>;
using Body = std::function<ValueId(ProgramWriter&, ValueId)>;

// The axes of a value, as an attribute.
Ints all_axes(const ProgramWriter& w, ValueId x) {
  Ints axes;
  for (std::size_t d = 0; d < w.dims_of(x).size(); ++d)
    axes.push_back(static_cast<std::int64_t>(d));
  return axes;
}

// A number that depends on every element of y in another way.
ValueId weighted_sum(ProgramWriter& w, ValueId y) {
  Dims extents = w.dims_of(y);
  for (ModelDim& d : extents)
    if (d.per_batch) d = {1, false};
  std::int64_t count = 1;
  for (const ModelDim& d : extents) count *= d.size;
  std::vector<float> factors;
  for (std::int64_t i = 0; i < count; ++i)
    factors.push_back(static_cast<float>(std::sin(static_cast<double>(i) + 1.0)));
  const ValueId factor = w.constant_of(extents, factors);
  const ValueId product = w.node("mul", {y, factor});
  return w.node("mean", {product}, {{"axes", all_axes(w, product)}, {"keepdim", false}});
}

// x = input * p + q, with parameters p and q of the shape of a sample.
ValueId trained_input(ProgramWriter& w, Extents extents, const std::string& name = "") {
  const ValueId x = w.input(name + "x", extents);
  const ValueId p = w.parameter(name + "p", extents), q = w.parameter(name + "q", extents);
  return w.node("add", {w.node("mul", {x, p}), q});
}

ProgramCase program_case(const std::string& name, Extents extents, const Body& body,
                         bool positive = false) {
  ProgramWriter w;
  ValueId x = trained_input(w, extents);
  if (positive) x = w.node("add_scalar", {w.node("abs", {x})}, {{"value", 0.3}});
  const ValueId y = body(w, x);
  if (w.dims_of(y).empty()) {
    w.program.loss = y;
  } else {
    w.program.loss = weighted_sum(w, y);
    if (w.dims_of(y)[0].per_batch) w.output("y", y);
  }
  if (w.program.outputs.empty()) w.output("x", x);
  return {.name = name, .program = w.program};
}

ProgramCase unary_case(const std::string& kind, const std::vector<ModelAttribute>& attributes = {},
                       bool positive = false) {
  return program_case(
      kind, {2, 3, 4}, [&](ProgramWriter& w, ValueId x) { return w.node(kind, {x}, attributes); },
      positive);
}

void add_elementwise(std::vector<ProgramCase>& cases) {
  for (const char* kind :
       {"relu", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "mish", "exp", "expm1",
        "sin", "cos", "erf", "abs", "neg", "square", "floor", "round", "sign"})
    cases.push_back(unary_case(kind));
  for (const char* kind : {"log", "log1p", "sqrt", "rsqrt", "reciprocal"})
    cases.push_back(unary_case(kind, {}, true));
  cases.push_back(unary_case("leaky_relu", {{"slope", 0.2}}));
  cases.push_back(unary_case("gelu", {{"approximate", "none"}}));
  cases.push_back(unary_case("gelu", {{"approximate", "tanh"}}));
  cases.push_back(unary_case("elu", {{"alpha", 0.7}}));
  cases.push_back(unary_case("softplus", {{"beta", 2.0}}));
  cases.push_back(unary_case("clamp", {{"min", -0.4}, {"max", 0.3}}));
  cases.push_back(unary_case("clamp", {{"min", -0.4}}));
  cases.push_back(unary_case("pow_scalar", {{"exponent", 1.7}}, true));
  cases.push_back(unary_case("add_scalar", {{"value", 0.25}}));
  cases.push_back(unary_case("mul_scalar", {{"value", -1.5}}));
  for (const char* kind : {"add", "sub", "mul", "div", "maximum", "minimum", "pow"})
    for (const Extents other : {Extents{2, 3, 4}, Extents{3, 1}, Extents{2, 1, 1}, Extents{}})
      cases.push_back(program_case(
          std::string(kind), {2, 3, 4},
          [&](ProgramWriter& w, ValueId x) {
            ValueId b = w.parameter("b", other);
            b = w.node("add_scalar", {w.node("abs", {b})}, {{"value", 0.2}});
            return w.node(kind, {x, b});
          },
          true));
  for (const char* kind : {"eq", "ne", "lt", "le", "gt", "ge"})
    cases.push_back(program_case(kind, {4, 5}, [&](ProgramWriter& w, ValueId x) {
      const ValueId c = w.node(kind, {x, w.parameter("b", {5})});
      const ValueId d = w.node("or", {w.node("not", {c}), w.node("and", {c, c})});
      return w.node("where",
                    {w.node("and", {c, d}), x, w.node("mul_scalar", {x}, {{"value", 3.0}})});
    }));
  cases.push_back(program_case("casts", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId ids = w.ids("ids", {4}, 5);
    const ValueId more = w.node("add", {ids, w.node("cast", {x}, {{"to", "i32"}})});
    const ValueId f = w.node("cast", {more}, {{"to", "f32"}});
    const ValueId mask = w.node("cast", {w.node("cast", {ids}, {{"to", "bool"}})}, {{"to", "f32"}});
    return w.node("mul", {w.node("mul", {x, f}), mask});
  }));
  cases.push_back(program_case("stop_gradient", {4}, [](ProgramWriter& w, ValueId x) {
    return w.node("mul", {x, w.node("stop_gradient", {w.constant({4}, {1, 2, 3, 4})})});
  }));
}

void add_reductions(std::vector<ProgramCase>& cases) {
  for (const char* kind : {"sum", "mean", "amax", "amin", "prod", "var", "logsumexp"})
    for (const Ints& axes : {Ints{1}, Ints{2, 3}, Ints{3}, Ints{0, 2}, Ints{1, 2, 3}})
      for (const bool keepdim : {false, true})
        cases.push_back(program_case(kind, {2, 3, 4}, [&](ProgramWriter& w, ValueId x) {
          return w.node(kind, {x}, {{"axes", axes}, {"keepdim", keepdim}});
        }));
  cases.push_back(program_case("cumsum", {4, 3}, [](ProgramWriter& w, ValueId x) {
    return w.node("cumsum", {x}, {{"axis", 1}});
  }));
  for (const char* kind : {"argmax", "argmin"})
    cases.push_back(program_case(kind, {4, 3, 5}, [&](ProgramWriter& w, ValueId x) {
      const ValueId best = w.node(kind, {x}, {{"axis", 1}, {"keepdim", true}});
      return w.node("mul", {x, w.node("cast", {best}, {{"to", "f32"}})});
    }));
}

void add_moves(std::vector<ProgramCase>& cases) {
  const auto one = [&](const std::string& kind, const std::vector<ModelAttribute>& attributes) {
    cases.push_back(program_case(kind, {2, 4, 5}, [&](ProgramWriter& w, ValueId x) {
      return w.node(kind, {x}, attributes);
    }));
  };
  one("permute", {{"order", Ints{2, 0, 3, 1}}});
  one("slice", {{"axis", 3}, {"begin", 1}, {"end", 5}, {"step", 2}});
  one("slice", {{"axis", 1}, {"begin", 1}, {"end", 2}});
  one("pad", {{"before", Ints{0, 1, 0, 2}}, {"after", Ints{0, 0, 1, 0}}});
  one("pad", {{"before", Ints{0, 1, -1, 2}}, {"after", Ints{0, 0, 1, -2}}, {"value", 0.5}});
  one("pad", {{"before", Ints{0, -4, 7, 0}}, {"after", Ints{0, 4, -5, 0}}, {"value", 0.5}});
  one("pad_reflect", {{"before", Ints{0, 0, 2, 1}}, {"after", Ints{0, 0, 1, 3}}});
  one("pad_replicate", {{"before", Ints{0, 0, 2, 1}}, {"after", Ints{0, 0, 1, 3}}});
  one("pad_circular", {{"before", Ints{0, 0, 2, 1}}, {"after", Ints{0, 0, 1, 3}}});
  one("roll", {{"axis", 2}, {"shift", -1}});
  one("flip", {{"axes", Ints{1, 3}}});
  one("index_select", {{"axis", 2}, {"index", Ints{3, 0, 0}}});
  cases.push_back(program_case("reshape", {2, 4, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId pixels = w.shaped("reshape", x, per_sample({2, 20}));
    const ValueId tokens = w.node("permute", {pixels}, {{"order", Ints{0, 2, 1}}});
    return w.shaped("reshape", tokens, per_sample({10, 4}));
  }));
  cases.push_back(program_case("expand", {1, 4}, [](ProgramWriter& w, ValueId x) {
    const ValueId token = w.shaped("expand", w.parameter("token", {1, 1, 4}), per_sample({1, 4}));
    const ValueId wide = w.shaped("expand", x, per_sample({3, 4}));
    return w.node("concat", {token, wide}, {{"axis", 1}});
  }));
  cases.push_back(program_case("concat", {2, 4, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId y = w.node("relu", {x});
    return w.node("concat", {x, y, x}, {{"axis", 1}});
  }));
  cases.push_back(program_case("take_rows", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId ids = w.ids("ids", {3}, 6);
    const ValueId rows = w.node("take_rows", {w.parameter("table", {7, 4}), ids});
    return w.node("mul", {rows, w.shaped("reshape", x, per_sample({1, 4}))});
  }));
}

// 1 for ids that are not 1, else 0, as integers.
ValueId mask_of(ProgramWriter& w, ValueId ids) {
  return w.node("cast", {w.node("ne", {ids, w.constant_ids({}, {1})})}, {{"to", "i32"}});
}

// Elements and rows that computed integers select.
void add_selections(std::vector<ProgramCase>& cases) {
  cases.push_back(program_case("gather", {4, 5}, [](ProgramWriter& w, ValueId x) {
    return w.node("gather", {x, w.ids("ids", {3, 2}, 3)}, {{"axis", 1}});
  }));
  cases.push_back(program_case("gather of the maximum", {4, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId best = w.node("argmax", {x}, {{"axis", 2}, {"keepdim", true}});
    return w.node("gather", {x, best}, {{"axis", 2}});
  }));
  cases.push_back(program_case("gather from a parameter", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId rows = w.parameter("rows", {7, 4});
    return w.node("mul", {x, w.node("gather", {rows, w.ids("ids", {4}, 6)}, {{"axis", 0}})});
  }));
  cases.push_back(program_case("gather of integers", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId ids = w.ids("ids", {4}, 9);
    const ValueId best = w.node("argmax", {ids}, {{"axis", 1}, {"keepdim", true}});
    const ValueId chosen = w.node("gather", {ids, best}, {{"axis", 1}});
    return w.node("mul", {x, w.node("cast", {chosen}, {{"to", "f32"}})});
  }));
  cases.push_back(program_case("scatter_add", {4, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId src = trained_input(w, {6, 3}, "src ");
    return w.node("scatter_add", {x, w.ids("ids", {6, 3}, 3), src}, {{"axis", 1}});
  }));
  cases.push_back(program_case("positions by a mask", {6}, [](ProgramWriter& w, ValueId x) {
    const ValueId mask = mask_of(w, w.ids("ids", {6}, 2));
    const ValueId count = w.node("cumsum", {mask}, {{"axis", 1}});
    const ValueId place = w.node("add", {w.node("mul", {count, mask}), w.constant_ids({}, {1})});
    const ValueId rows = w.node("embedding", {w.parameter("table", {8, 5}), place});
    return w.node("matmul", {w.shaped("reshape", x, per_sample({1, 6})), rows});
  }));
  cases.push_back(program_case("places that may be -1", {6}, [](ProgramWriter& w, ValueId x) {
    const ValueId mask = mask_of(w, w.ids("ids", {6}, 2));
    const ValueId count = w.node("cumsum", {mask}, {{"axis", 1}});
    const ValueId last = w.node("sub", {count, w.constant_ids({}, {1})});
    const ValueId place =
        w.node("where", {w.node("cast", {mask}, {{"to", "bool"}}), last, w.constant_ids({}, {2})});
    const ValueId row = w.node("take_rows", {w.parameter("table", {6, 5}), place});
    return w.node("matmul", {w.shaped("reshape", x, per_sample({1, 6})), row});
  }));
  cases.push_back(program_case("integers along axes", {4, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId ids = w.ids("ids", {4, 5}, 7);
    ValueId y = x;
    for (const char* kind : {"sum", "amax", "amin"}) {
      const ValueId one = w.node(kind, {ids}, {{"axes", Ints{2, 1}}, {"keepdim", true}});
      y = w.node("mul", {y, w.node("cast", {one}, {{"to", "f32"}})});
    }
    const ValueId least = w.node("argmin", {ids}, {{"axis", 2}, {"keepdim", true}});
    return w.node("mul", {y, w.node("cast", {least}, {{"to", "f32"}})});
  }));
  cases.push_back(program_case("limited integers", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId ids = w.ids("ids", {4}, 9);
    const ValueId low = w.node("maximum", {ids, w.constant_ids({}, {3})});
    const ValueId place = w.node("minimum", {low, w.constant_ids({4}, {6, 5, 4, 3})});
    const ValueId rows = w.node("take_rows", {w.parameter("table", {7}), place});
    const ValueId same = w.node("eq", {ids, place});
    const ValueId some = w.node("where", {same, same, w.node("not", {same})});
    return w.node("mul", {w.node("mul", {x, rows}), w.node("cast", {some}, {{"to", "f32"}})});
  }));
  cases.push_back(program_case("rows of integers", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId table = w.constant_ids({5}, {4, 0, 2, 1, 3});
    const ValueId chosen = w.node("take_rows", {table, w.ids("ids", {4}, 4)});
    const ValueId turned =
        w.node("index_select", {chosen}, {{"axis", 1}, {"index", Ints{2, 0, 3, 3}}});
    return w.node("mul", {x, w.node("cast", {turned}, {{"to", "f32"}})});
  }));
}

void add_states(std::vector<ProgramCase>& cases) {
  cases.push_back(program_case("set_state", {5}, [](ProgramWriter& w, ValueId x) {
    const ValueId before = w.state("s", {5});
    const ValueId mean = w.node("mean", {x}, {{"axes", Ints{0}}, {"keepdim", false}});
    const ValueId after = w.node("set_state", {w.node("add", {before, mean})}, {{"state", 0}});
    return w.node("mul", {x, w.node("exp", {after})});
  }));
  cases.back().trains_only = true;
  cases.push_back(program_case("set_state of integers", {5}, [](ProgramWriter& w, ValueId x) {
    const ValueId before = w.state("s", {}, "I64", ValueType::kI32);
    const ValueId more = w.node("add", {before, w.constant_ids({}, {3})});
    const ValueId after = w.node("set_state", {more}, {{"state", 0}});
    return w.node("mul", {x, w.node("cast", {after}, {{"to", "f32"}})});
  }));
  cases.back().trains_only = true;
}

void add_norms(std::vector<ProgramCase>& cases) {
  for (const bool affine : {true, false}) {
    const auto weights = [affine](ProgramWriter& w, ValueId x, std::int64_t c) {
      std::vector<ValueId> in{x};
      if (affine) in.insert(in.end(), {w.parameter("g", {c}), w.parameter("b", {c})});
      return in;
    };
    for (const Extents extents : {Extents{6}, Extents{6, 5}, Extents{6, 4, 3}}) {
      cases.push_back(program_case("batch_norm", extents, [&](ProgramWriter& w, ValueId x) {
        w.program.statistics = {{"m", 6, false}, {"v", 6, true}};
        return w.node("batch_norm", weights(w, x, 6),
                      {{"eps", 1e-3}, {"momentum", 0.2}, {"mean", 0}, {"variance", 1}});
      }));
      cases.back().trains_only = true;
    }
    cases.push_back(program_case("batch_norm twice", {6, 4}, [&](ProgramWriter& w, ValueId x) {
      w.program.statistics = {{"m", 6, false}, {"v", 6, true}};
      const std::vector<ModelAttribute> attributes{
          {"eps", 1e-3}, {"momentum", 0.2}, {"mean", 0}, {"variance", 1}};
      std::vector<ValueId> in = weights(w, x, 6);
      in[0] = w.node("tanh", {w.node("batch_norm", in, attributes)});
      return w.node("batch_norm", in, attributes);
    }));
    cases.back().trains_only = true;
    cases.push_back(program_case("group_norm", {6, 4, 3}, [&](ProgramWriter& w, ValueId x) {
      return w.node("group_norm", weights(w, x, 6), {{"groups", 3}, {"eps", 1e-3}});
    }));
    cases.push_back(program_case("layer_norm", {5, 6}, [&](ProgramWriter& w, ValueId x) {
      return w.node("layer_norm", weights(w, x, 6), {{"axes", 1}, {"eps", 1e-3}});
    }));
  }
  cases.push_back(
      program_case("layer_norm over two axes", {5, 2, 3}, [](ProgramWriter& w, ValueId x) {
        return w.node("layer_norm", {x, w.parameter("g", {2, 3}), w.parameter("b", {2, 3})},
                      {{"axes", 2}, {"eps", 1e-3}});
      }));
  cases.push_back(program_case("frozen layer_norm", {5, 6}, [](ProgramWriter& w, ValueId x) {
    return w.node("layer_norm", {x, w.parameter("g", {6}, false), w.parameter("b", {6})},
                  {{"axes", 1}, {"eps", 1e-3}});
  }));
  cases.push_back(program_case("rms_norm", {5, 6}, [](ProgramWriter& w, ValueId x) {
    return w.node("rms_norm", {x, w.parameter("g", {6})}, {{"axes", 1}, {"eps", 1e-3}});
  }));
  for (const char* kind : {"softmax", "log_softmax"})
    for (const int axis : {1, 3})
      cases.push_back(program_case(kind, {4, 3, 5}, [&](ProgramWriter& w, ValueId x) {
        return w.node(kind, {x}, {{"axis", std::int64_t{axis}}});
      }));
}

std::vector<ModelAttribute> window(std::int64_t stride, std::int64_t padding) {
  return {{"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}},
          {"dilation", Ints{1, 1}}};
}

struct ConvCase {
  const char* name;
  Ints input, weight;  // without the batch
  Ints stride, padding, dilation;
  std::int64_t groups = 1;
  Ints output_padding = {};  // of a transposed convolution
};

void add_convs(std::vector<ProgramCase>& cases) {
  const ConvCase convs[] = {
      {"conv 1-d", {4, 9}, {6, 2, 3}, {2}, {1}, {1}, 2},
      {"dilated conv 1-d", {4, 9}, {6, 4, 3}, {1}, {2}, {2}},
      {"conv with a flat kernel", {3, 6, 7}, {4, 3, 1, 5}, {1, 1}, {0, 2}, {1, 1}},
      {"conv with two strides", {3, 6, 7}, {4, 3, 3, 3}, {2, 1}, {1, 1}, {1, 1}},
      {"dilated conv", {3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {2, 3}, {2, 3}},
      {"dilated conv with a stride", {4, 9, 8}, {4, 1, 3, 3}, {2, 2}, {2, 2}, {2, 2}, 4},
      {"conv_transpose", {4, 4, 5}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 2, {1, 0}},
      {"conv_transpose 1-d", {4, 5}, {4, 3, 4}, {2}, {1}, {1}, 1, {0}},
      {"conv 3-d", {4, 5, 4, 6}, {6, 2, 3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 1, 1}, 2},
      {"dilated conv 3-d", {2, 7, 5, 6}, {3, 2, 3, 3, 2}, {1, 2, 1}, {2, 1, 0}, {2, 1, 2}},
      {"depthwise conv 3-d", {3, 4, 4, 4}, {3, 1, 2, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 3},
      {"conv 3-d with a flat kernel",
       {2, 3, 4, 4},
       {3, 2, 1, 3, 3},
       {2, 1, 1},
       {0, 1, 1},
       {1, 1, 1}},
      {"conv 3-d of one depth with padding",
       {2, 1, 4, 4},
       {3, 2, 1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1}},
      {"conv_transpose 3-d",
       {4, 3, 2, 4},
       {4, 3, 3, 2, 3},
       {2, 2, 1},
       {1, 0, 1},
       {1, 1, 2},
       2,
       {1, 0, 0}},
  };
  for (const ConvCase& c : convs) {
    ProgramWriter w;
    const ValueId x = w.input_of("x", c.input);
    const bool transposed = !c.output_padding.empty();
    const std::int64_t out = transposed ? c.weight[1] * c.groups : c.weight[0];
    std::vector<ModelAttribute> attributes{{"stride", c.stride},
                                           {"padding", c.padding},
                                           {"dilation", c.dilation},
                                           {"groups", c.groups}};
    if (transposed) attributes.push_back({"output_padding", c.output_padding});
    const ValueId scaled = w.node("mul", {x, w.parameter("p", {})});
    const ValueId y =
        w.node(transposed ? "conv_transpose" : "conv",
               {scaled, w.parameter_of("w", c.weight), w.parameter("b", {out})}, attributes);
    w.program.loss = weighted_sum(w, y);
    w.output("y", y);
    cases.push_back({.name = c.name, .program = w.program});
  }
}

void add_random(std::vector<ProgramCase>& cases) {
  for (const char* kind : {"uniform", "normal"}) {
    cases.push_back(program_case(kind, {5, 7}, [&](ProgramWriter& w, ValueId x) {
      const ValueId noise = w.node("mul", {x, w.draw(kind, per_sample({5, 7}), 3)});
      return w.node("add", {noise, w.draw(kind, per_sample({5, 7}), 4)});
    }));
    cases.push_back(
        program_case(std::string(kind) + " images", {3, 4, 5}, [&](ProgramWriter& w, ValueId x) {
          const ValueId y = w.node("conv", {x, w.parameter("w", {2, 3, 3, 3})}, window(1, 1));
          return w.node("mul", {y, w.draw(kind, per_sample({2, 4, 5}), 0)});
        }));
    cases.push_back(program_case(
        std::string(kind) + " without the batch", {6}, [&](ProgramWriter& w, ValueId x) {
          const ValueId row = w.node("add", {x, w.draw(kind, dims({6}), 0)});
          return w.node("mul", {row, w.draw(kind, {}, 0x7fffffff)});
        }));
  }
}

void add_pools(std::vector<ProgramCase>& cases) {
  struct PoolCase {
    const char* kind;
    Ints input, kernel, stride, padding;
    bool ceil, counts;
    Ints dilation = {};
  };
  const PoolCase pools[] = {
      {"max_pool", {3, 6, 8}, {3, 3}, {2, 2}, {0, 0}, true, true},
      {"max_pool", {3, 6, 8}, {3, 2}, {2, 2}, {1, 0}, false, true},
      {"max_pool", {3, 9}, {3}, {2}, {1}, true, true},
      {"avg_pool", {3, 6, 8}, {3, 3}, {2, 2}, {1, 1}, true, false},
      {"avg_pool", {3, 6, 8}, {3, 3}, {2, 2}, {1, 1}, true, true},
      {"avg_pool", {3, 6, 8}, {2, 4}, {2, 2}, {0, 2}, false, true},
      {"avg_pool", {3, 9}, {3}, {2}, {1}, false, true},
      {"max_pool", {3, 6, 8}, {3, 2}, {1, 2}, {1, 0}, false, true},
      {"max_pool", {3, 9, 8}, {3, 2}, {2, 1}, {1, 1}, true, true, {2, 3}},
      {"max_pool", {2, 40}, {20}, {3}, {10}, false, true},
      {"max_pool", {2, 20, 19}, {17, 17}, {1, 2}, {0, 0}, false, true},
      {"max_pool", {1, 600}, {300}, {100}, {50}, false, true},
      {"max_pool", {2, 5, 6, 4}, {3, 2, 2}, {2, 2, 1}, {1, 0, 1}, false, true},
      {"max_pool", {2, 7, 6, 4}, {3, 2, 2}, {1, 2, 1}, {1, 0, 1}, true, true, {2, 1, 1}},
      {"max_pool", {3, 1, 5}, {2, 2}, {2, 3}, {0, 0}, true, true},
      {"avg_pool", {3, 1, 5}, {2, 2}, {2, 3}, {0, 0}, true, false},
      {"avg_pool", {3, 7, 8}, {3, 2}, {1, 2}, {1, 0}, true, false},
      {"avg_pool", {2, 40}, {20}, {3}, {10}, false, false},
      {"avg_pool", {2, 5, 6, 4}, {3, 2, 2}, {2, 2, 1}, {1, 0, 1}, true, false},
      {"avg_pool", {2, 5, 6, 4}, {3, 2, 2}, {2, 2, 1}, {1, 0, 1}, true, true},
  };
  for (const PoolCase& c : pools) {
    ProgramWriter w;
    const ValueId x = w.input_of("x", c.input);
    std::vector<ModelAttribute> attributes{
        {"kernel", c.kernel}, {"stride", c.stride}, {"padding", c.padding}, {"ceil", c.ceil}};
    const bool max = std::string(c.kind) == "max_pool";
    if (max)
      attributes.push_back(
          {"dilation", c.dilation.empty() ? Ints(c.kernel.size(), 1) : c.dilation});
    if (!max) attributes.push_back({"count_include_pad", c.counts});
    const ValueId y = w.node(c.kind, {w.node("mul", {x, w.parameter("p", {})})}, attributes);
    w.program.loss = weighted_sum(w, y);
    w.output("y", y);
    cases.push_back({.name = c.kind, .program = w.program});
  }
}

void add_layers(std::vector<ProgramCase>& cases) {
  cases.push_back(program_case("linear", {4, 6},
                               [](ProgramWriter& w, ValueId x) { return w.linear("fc", x, 5); }));
  cases.push_back(program_case("tied linear", {6}, [](ProgramWriter& w, ValueId x) {
    const ValueId weight = w.parameter("w", {6, 6}), bias = w.parameter("b", {6});
    const ValueId y = w.node("tanh", {w.node("linear", {x, weight, bias})});
    return w.node("linear", {y, weight, bias});
  }));
  cases.push_back(program_case("frozen linear", {6}, [](ProgramWriter& w, ValueId x) {
    w.parameter("unused", {4});
    return w.node("linear", {x, w.parameter("w", {5, 6}, false), w.parameter("b", {5})});
  }));
  for (const bool trainable : {true, false})
    cases.push_back(program_case("image_linear", {3, 2, 5}, [&](ProgramWriter& w, ValueId x) {
      return w.node("image_linear",
                    {x, w.parameter("w", {4, 30}, trainable), w.parameter("b", {4})});
    }));
  cases.push_back(program_case("tied image_linear", {3, 4}, [](ProgramWriter& w, ValueId x) {
    const ValueId weight = w.parameter("w", {12, 12});
    return w.node("linear", {w.node("image_linear", {x, weight}), weight});
  }));
  // A weight and a bias that are frozen, or that two nodes use, are inputs of the operator.
  cases.push_back(program_case("frozen conv", {3, 5, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId y = w.node("conv", {x, w.parameter("w", {4, 3, 3, 3})}, window(1, 1));
    return w.node("conv",
                  {y, w.parameter("frozen w", {4, 4, 3, 3}, false), w.parameter("b", {4}, false)},
                  window(1, 1));
  }));
  cases.push_back(program_case("conv with two uses", {3, 5, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId weight = w.parameter("w", {3, 3, 3, 3}), bias = w.parameter("b", {3});
    const ValueId y = w.node("tanh", {w.node("conv", {x, weight, bias}, window(1, 1))});
    return w.node("conv", {y, weight, bias}, window(1, 1));
  }));
  cases.push_back(program_case("computed weight", {3, 5, 5}, [](ProgramWriter& w, ValueId x) {
    const ValueId weight = w.node("tanh", {w.parameter("w", {4, 3, 3, 3})});
    return w.node("conv", {x, weight}, window(1, 1));
  }));
  cases.push_back(
      program_case("computed weight of a line", {3, 7}, [](ProgramWriter& w, ValueId x) {
        const ValueId weight = w.node("tanh", {w.parameter("w", {4, 3, 3})});
        return w.node("conv", {x, weight},
                      {{"stride", Ints{2}}, {"padding", Ints{1}}, {"dilation", Ints{1}}});
      }));
  cases.push_back(program_case("matmul", {2, 3, 4}, [](ProgramWriter& w, ValueId x) {
    const ValueId t = w.node("permute", {x}, {{"order", Ints{0, 1, 3, 2}}});
    const ValueId y = w.node("matmul", {x, t});
    return w.node("matmul", {w.node("matmul", {y, x}), w.parameter("m", {2, 4, 5})});
  }));
  cases.push_back(program_case("matmul with one matrix", {3, 4}, [](ProgramWriter& w, ValueId x) {
    return w.node("matmul", {x, w.parameter("m", {4, 5})});
  }));
  cases.push_back(program_case("conv", {4, 6, 5}, [](ProgramWriter& w, ValueId x) {
    std::vector<ModelAttribute> attributes = window(2, 1);
    attributes.push_back({"groups", 2});
    return w.node("conv", {x, w.parameter("w", {6, 2, 3, 3}), w.parameter("b", {6})}, attributes);
  }));
  cases.push_back(program_case("embedding", {4}, [](ProgramWriter& w, ValueId x) {
    const ValueId table = w.parameter("table", {7, 4});
    const ValueId y = w.node("embedding", {table, w.ids("ids", {3}, 6)});
    return w.node("mul", {w.node("linear", {y, table}),
                          w.shaped("reshape", w.linear("fc", x, 7), per_sample({1, 7}))});
  }));
  for (const char* kind : {"max_pool", "avg_pool"})
    for (const std::int64_t padding : {0, 1})
      cases.push_back(program_case(kind, {3, 7, 7}, [&](ProgramWriter& w, ValueId x) {
        std::vector<ModelAttribute> a{
            {"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{padding, padding}}};
        if (std::string(kind) == "max_pool") a.push_back({"dilation", Ints{1, 1}});
        return w.node(kind, {x}, a);
      }));
  struct AdaptiveCase {
    Ints input, size;
  };
  const AdaptiveCase adaptive[] = {
      {{3, 5, 7}, {1, 1}},       {{3, 5, 7}, {2, 3}},      {{3, 6, 4}, {3, 2}},
      {{2, 3, 4}, {5, 6}},       {{2, 10}, {3}},           {{2, 300}, {1}},
      {{2, 5, 4, 6}, {2, 3, 6}}, {{2, 3, 4, 5}, {1, 1, 1}}};
  for (const char* kind : {"adaptive_avg_pool", "adaptive_max_pool"})
    for (const AdaptiveCase& c : adaptive) {
      ProgramWriter w;
      const ValueId x = w.node("mul", {w.input_of("x", c.input), w.parameter_of("p", c.input)});
      const ValueId y = w.node(kind, {x}, {{"size", c.size}});
      w.program.loss = weighted_sum(w, y);
      w.output("y", y);
      cases.push_back({.name = kind, .program = w.program});
    }
}

void add_resizes(std::vector<ProgramCase>& cases) {
  struct ResizeCase {
    const char* mode;
    bool align_corners;
    Ints input, size;
  };
  const ResizeCase resizes[] = {
      {"nearest", false, {3, 4, 5}, {8, 10}},
      {"nearest", false, {3, 4, 5}, {12, 5}},
      {"nearest", false, {3, 7, 6}, {3, 10}},
      {"nearest", false, {2, 5}, {9}},
      {"nearest", false, {2, 3, 4, 5}, {6, 4, 7}},
      {"linear", false, {3, 4, 5}, {8, 10}},
      {"linear", false, {3, 9, 7}, {4, 3}},
      {"linear", true, {3, 4, 5}, {9, 1}},
      {"linear", true, {3, 6}, {11}},
      {"linear", false, {2, 3, 4, 2}, {5, 2, 3}},
      {"cubic", false, {3, 4, 5}, {9, 8}},
      {"cubic", true, {3, 4, 5}, {3, 10}},
  };
  for (const ResizeCase& c : resizes) {
    ProgramWriter w;
    const ValueId x = w.node("mul", {w.input_of("x", c.input), w.parameter_of("p", c.input)});
    const ValueId y = w.node(
        "resize", {x}, {{"size", c.size}, {"mode", c.mode}, {"align_corners", c.align_corners}});
    w.program.loss = weighted_sum(w, y);
    w.output("y", y);
    cases.push_back({.name = std::string("resize ") + c.mode, .program = w.program});
  }
}

// Self-attention of x [n,10,8] with 2 heads in two windows of 5 tokens, each with its own mask.
ValueId windows_attention(ProgramWriter& w, ValueId x, double scale) {
  std::vector<ValueId> inputs;
  for (const char* part : {"q", "k", "v"}) {
    const ValueId y =
        w.shaped("reshape", w.linear(part, x, 8), {{2, true}, {5, false}, {2, false}, {4, false}});
    inputs.push_back(w.node("permute", {y}, {{"order", Ints{0, 2, 1, 3}}}));
  }
  std::vector<float> mask(50, 0.0F);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = -2.0F;
  inputs.push_back(w.constant({2, 1, 5, 5}, mask));
  inputs.push_back(w.parameter("bias", {2, 5, 5}));
  const ValueId lengths = w.ids("length", {2}, 5);
  w.program.inputs.back().low = 1;
  inputs.push_back(w.shaped("reshape", lengths, {{2, true}}));
  return w.node("attention", inputs, {{"scale", scale}});
}

// Self-attention of x [n,t,h*d], with t tokens and h heads of queries.
void add_attention(std::vector<ProgramCase>& cases) {
  const auto attend = [&](const std::string& name, std::int64_t keys, double scale, bool causal,
                          const std::function<ValueId(ProgramWriter&)>& mask,
                          bool documents = false) {
    cases.push_back(program_case(name, {5, 8}, [&](ProgramWriter& w, ValueId x) {
      const auto heads = [&](const std::string& part, std::int64_t count) {
        const ValueId y =
            w.shaped("reshape", w.linear(part, x, count * 4), per_sample({5, count, 4}));
        return w.node("permute", {y}, {{"order", Ints{0, 2, 1, 3}}});
      };
      const ValueId q = heads("q", 2), k = heads("k", keys), v = heads("v", keys);
      const ValueId m = mask ? mask(w) : kNoValue;
      std::vector<ValueId> inputs{q, k, v, m};
      if (documents) {  // a query sees one key at least
        const ValueId own = w.constant_ids({5}, {0, 1, 2, 3, 4});
        const ValueId first = w.node("minimum", {w.ids("first", {5}, 4), own});
        inputs.insert(inputs.end(), {kNoValue, kNoValue, first});
      }
      return w.node("attention", inputs, {{"causal", causal}, {"scale", scale}});
    }));
  };
  const auto numbers = [](ProgramWriter& w, Extents extents, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 3) - 1.0F);
    return w.constant(extents, values);
  };
  attend("attention", 2, 0.5, false, {});
  attend("causal attention", 2, 0.5, true, {});
  attend("attention with a mask", 2, 0.5, false, [&](ProgramWriter& w) {
    return numbers(w, {5, 5}, 25);
  });
  attend("attention with a mask of heads", 2, 0.5, true, [&](ProgramWriter& w) {
    return numbers(w, {2, 5, 5}, 50);
  });
  attend("attention with shared keys", 1, 0.3, true, {});
  attend("attention within documents", 2, 0.5, true, {}, true);
  attend("attention with shared keys within documents", 1, 0.3, true, {}, true);
  for (const double scale : {0.5, 0.4})
    cases.push_back(
        program_case("attention with bias, length and masks in turn", {10, 8},
                     [&](ProgramWriter& w, ValueId x) { return windows_attention(w, x, scale); }));
  cases.push_back(
      program_case("attention with wide values", {5, 8}, [](ProgramWriter& w, ValueId x) {
        std::vector<ValueId> inputs;
        for (const auto& [part, width] :
             {std::pair{"q", 4}, std::pair{"k", 4}, std::pair{"v", 6}}) {
          const ValueId y =
              w.shaped("reshape", w.linear(part, x, 2 * width), per_sample({5, 2, width}));
          inputs.push_back(w.node("permute", {y}, {{"order", Ints{0, 2, 1, 3}}}));
        }
        return w.node("attention", inputs, {{"causal", true}, {"scale", 0.5}});
      }));
  cases.push_back(
      program_case("attention to other tokens", {5, 8}, [](ProgramWriter& w, ValueId x) {
        std::vector<ValueId> inputs;
        const ValueId first = w.node(
            "slice", {x},
            {{"axis", std::int64_t{1}}, {"begin", std::int64_t{0}}, {"end", std::int64_t{3}}});
        for (const char* part : {"q", "k", "v"}) {
          const bool queries = part[0] == 'q';
          const ValueId y = w.linear(part, queries ? first : x, queries ? 16 : 8);
          const ValueId split =
              w.shaped("reshape", y, queries ? per_sample({3, 4, 4}) : per_sample({5, 2, 4}));
          inputs.push_back(w.node("permute", {split}, {{"order", Ints{0, 2, 1, 3}}}));
        }
        return w.node("attention", inputs, {{"scale", 0.5}});
      }));
  attend("attention with a truth mask", 2, 0.5, false, [&](ProgramWriter& w) {
    return w.node("ge", {numbers(w, {5, 5}, 25), numbers(w, {1}, 1)});
  });
}

// A layer over the 5 times of x [n,5,6] with 3 units; first states that a model computes.
void add_recurrent(std::vector<ProgramCase>& cases) {
  const auto layer = [&](const std::string& name, const std::string& kind, bool reverse, bool bias,
                         bool states) {
    cases.push_back(program_case(name, {5, 6}, [&](ProgramWriter& w, ValueId x) {
      const bool lstm = kind == "lstm";
      const std::int64_t width = lstm ? 12 : 9;
      const ValueId gates =
          w.node("permute", {w.linear("in", x, width)}, {{"order", Ints{1, 0, 2}}});
      const ValueId first =
          w.node("mean", {w.linear("first", x, 3)}, {{"axes", Ints{1}}, {"keepdim", false}});
      std::vector<ValueId> inputs = {gates, w.parameter("weight", {width, 3}),
                                     bias ? w.parameter("bias", {width}) : kNoValue};
      if (states) inputs.push_back(first);
      if (states && lstm) inputs.push_back(w.node("mul_scalar", {first}, {{"value", 0.5}}));
      const ValueId y = w.node(kind, inputs, {{"reverse", reverse}});
      return w.node("permute", {y}, {{"order", Ints{1, 0, 2}}});
    }));
  };
  for (const char* kind : {"lstm", "gru"}) {
    layer(kind, kind, false, true, false);
    layer(std::string(kind) + " in reverse, with first states", kind, true, true, true);
    layer(std::string(kind) + " without a bias", kind, false, false, true);
  }
}

void add_losses(std::vector<ProgramCase>& cases) {
  const auto loss = [&](const std::string& kind, Extents extents, const Body& body) {
    cases.push_back(program_case(kind, extents, body));
  };
  for (const char* reduction : {"mean", "sum"}) {
    const ModelAttribute r{"reduction", reduction};
    loss("cross_entropy", {5, 2, 3}, [&](ProgramWriter& w, ValueId x) {
      return w.node("cross_entropy", {x, w.ids("label", {2, 3}, 4)}, {r});
    });
    loss("cross_entropy with everything", {5}, [&](ProgramWriter& w, ValueId x) {
      const ValueId weight = w.constant({5}, {1, 2, 0.5, 1, 3});
      return w.node("cross_entropy", {x, w.ids("label", {}, 4), weight},
                    {{"ignore_index", 2}, {"label_smoothing", 0.1}, r});
    });
    if (r.value == ModelAttribute{"", "mean"}.value)
      loss("regularised_cross_entropy", {5, 2, 3}, [&](ProgramWriter& w, ValueId x) {
        return w.node("regularised_cross_entropy", {x, w.ids("label", {2, 3}, 4)},
                      {{"label_smoothing", 0.1}, {"z_loss", 0.01}});
      });
    loss("nll", {5}, [&](ProgramWriter& w, ValueId x) {
      return w.node("nll", {x, w.ids("label", {}, 4)}, {r});
    });
    loss("cross_entropy_soft", {5}, [&](ProgramWriter& w, ValueId x) {
      return w.node("cross_entropy_soft", {x, w.input("target", {5})}, {r});
    });
    for (const char* kind : {"mse", "l1", "bce_with_logits"})
      loss(kind, {4, 3}, [&](ProgramWriter& w, ValueId x) {
        return w.node(kind, {x, w.input("target", {4, 3})}, {r});
      });
    loss("bce_with_logits with weights", {4, 3}, [&](ProgramWriter& w, ValueId x) {
      return w.node("bce_with_logits",
                    {x, w.input("target", {4, 3}), w.constant({3}, {1, 2, 3}),
                     w.constant({4, 1}, {1, 2, 3, 4})},
                    {r});
    });
    loss("smooth_l1", {4}, [&](ProgramWriter& w, ValueId x) {
      return w.node("smooth_l1", {x, w.input("target", {4})}, {{"beta", 0.5}, r});
    });
    loss("huber", {4}, [&](ProgramWriter& w, ValueId x) {
      return w.node("huber", {x, w.input("target", {4})}, {{"delta", 0.5}, r});
    });
    loss("bce", {4}, [&](ProgramWriter& w, ValueId x) {
      return w.node("bce", {w.node("sigmoid", {x}), w.input("target", {4})}, {r});
    });
    loss("kl_div", {4}, [&](ProgramWriter& w, ValueId x) {
      return w.node("kl_div", {x, w.input("target", {4})}, {{"log_target", true}, r});
    });
  }
  loss("kl_div of probabilities", {4}, [&](ProgramWriter& w, ValueId x) {
    const ValueId target = w.node("abs", {w.input("target", {4})});
    return w.node("kl_div", {x, target}, {{"reduction", "batchmean"}});
  });
  loss("two losses", {4}, [&](ProgramWriter& w, ValueId x) {
    const ValueId a = w.node("mse", {x, w.input("target", {4})}, {{"reduction", "mean"}});
    const ValueId b = w.node("cross_entropy", {x, w.ids("label", {}, 3)}, {{"reduction", "mean"}});
    return w.node("add", {a, w.node("mul_scalar", {b}, {{"value", 0.3}})});
  });
}

}  // namespace

ModelProgram detector_program() {
  ProgramWriter w;
  const ValueId image = w.input("image", {2, 4, 4});
  std::vector<ValueId> inputs;
  for (const std::int64_t side : {1, 2, 4}) {
    const ValueId cells = w.node("adaptive_avg_pool", {image}, {{"size", Ints{side, side}}});
    inputs.push_back(w.conv("head" + std::to_string(side), cells, 3 * (5 + 2), 1, 1, 0));
    w.output("head" + std::to_string(side), inputs.back());
  }
  // Every box has the class 0 and sides above 0.
  inputs.push_back(w.node("sigmoid", {w.input("boxes", {3, 5})}));
  std::vector<double> anchors;
  for (int i = 0; i < 18; ++i) anchors.push_back(1.0 + 0.25 * i);
  w.program.loss =
      w.node("yolo", inputs, {{"classes", 2}, {"image", Ints{4, 4}}, {"anchors", anchors}}, "loss");
  return w.program;
}

std::vector<ProgramCase> program_cases() {
  std::vector<ProgramCase> cases;
  add_elementwise(cases);
  add_reductions(cases);
  add_moves(cases);
  add_selections(cases);
  add_norms(cases);
  add_states(cases);
  add_random(cases);
  add_layers(cases);
  add_convs(cases);
  add_pools(cases);
  add_resizes(cases);
  add_attention(cases);
  add_recurrent(cases);
  add_losses(cases);
  return cases;
}

}  // namespace es::test
