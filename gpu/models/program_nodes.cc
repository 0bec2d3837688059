// ProgramBuilder: the calls of the models, each as the nodes that compute the same bits.
#include <cmath>

#include "gpu/models/program_builder.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr double kEps = 1e-5, kMomentum = 0.1;  // of batch norm
// The file stores these numbers as doubles. The checks guarantee that a model that is read from it
// computes with the same floats as the built-in model.
static_assert(static_cast<float>(kEps) == kBatchNormEps);
static_assert(static_cast<float>(kMomentum) == kBatchNormMomentum);
constexpr double kSlope = 0.1;  // of its leaky ReLU
static_assert(static_cast<float>(kSlope) == kLeakySlope);

}  // namespace

// --- Layers with parameters.

TensorId ProgramBuilder::conv2d(const std::string& name, TensorId x, const Conv2dOptions& o) {
  const TensorId y = GraphBuilder::conv2d(name, x, o);
  if (failed()) return y;
  const Op& op = graph().ops.back();
  std::vector<ValueId> inputs{image(x), parameter_value(op.weight)};
  if (op.bias != kNoParam) inputs.push_back(parameter_value(op.bias));
  const ConvShape& c = op.conv;
  return hold(y, Form::kImage,
              node("conv", name, inputs, pixels(y),
                   {{"stride", Ints{c.stride, c.stride}},
                    {"padding", Ints{c.pad, c.pad}},
                    {"dilation", Ints{1, 1}},
                    {"groups", c.groups}}));
}

TensorId ProgramBuilder::linear(const std::string& name, TensorId x, const LinearOptions& o) {
  const TensorId y = GraphBuilder::linear(name, x, o);
  if (failed()) return y;
  const Op& op = graph().ops.back();
  // A linear layer that reads a flattened image sums in the order (h, w, c) of the engine. The node
  // image_linear has this order and reads the image itself.
  const auto flattened = flattened_.find(x);
  const bool of_image = flattened != flattened_.end();
  std::vector<ValueId> inputs{of_image ? image(flattened->second) : rows(x, tokens(x)),
                              parameter_value(op.weight)};
  if (op.bias != kNoParam) inputs.push_back(parameter_value(op.bias));
  return hold(y, Form::kRows, node(of_image ? "image_linear" : "linear", name, inputs, tokens(y)));
}

TensorId ProgramBuilder::batch_norm(const std::string& name, TensorId x, BatchNormOptions o) {
  const TensorId y = GraphBuilder::batch_norm(name, x, o);
  if (failed()) return y;
  const auto mean = static_cast<std::int64_t>(program_.statistics.size());
  // The builder has just added the mean and the variance. They are the statistics that the program
  // does not have yet.
  for (const StatInfo& s : std::span(graph().table.stats()).subspan(program_.statistics.size()))
    program_.statistics.push_back({.name = s.name, .size = s.count, .is_variance = s.is_variance});
  const Op& op = graph().ops.back();
  const ValueId normed = node(
      "batch_norm", name, {image(x), parameter_value(op.weight), parameter_value(op.bias)},
      pixels(y), {{"eps", kEps}, {"momentum", kMomentum}, {"mean", mean}, {"variance", mean + 1}});
  switch (o.activation) {
    case Activation::kNone:
      return hold(y, Form::kImage, normed);
    case Activation::kRelu:
      return hold(y, Form::kImage, node("relu", name + ".relu", {normed}, pixels(y)));
    case Activation::kLeakyRelu:
      return hold(
          y, Form::kImage,
          node("leaky_relu", name + ".leaky_relu", {normed}, pixels(y), {{"slope", kSlope}}));
  }
  return y;
}

TensorId ProgramBuilder::layer_norm(const std::string& name, TensorId x, double eps) {
  const TensorId y = GraphBuilder::layer_norm(name, x, eps);
  if (failed()) return y;
  const Op& op = graph().ops.back();
  return hold(y, Form::kRows,
              node("layer_norm", name,
                   {rows(x, tokens(x)), parameter_value(op.weight), parameter_value(op.bias)},
                   tokens(y), {{"axes", std::int64_t{1}}, {"eps", eps}}));
}

TensorId ProgramBuilder::lookup(const std::string& parameter, TensorId ids, std::int64_t rows_count,
                                std::int64_t out, WeightInit init) {
  const TensorId y = GraphBuilder::lookup(parameter, ids, rows_count, out, init);
  if (failed()) return y;
  const ValueId selected = rows(ids, tokens(ids));
  Extents to = extents(selected);
  to.push_back(out);
  return hold(
      y, Form::kRows,
      node("embedding", parameter, {parameter_value(graph().ops.back().weight), selected}, to));
}

// --- Element by element.

TensorId ProgramBuilder::element_wise(const char* kind, const std::string& name,
                                      const std::vector<TensorId>& xs, TensorId y,
                                      const Attributes& attributes) {
  if (failed()) return y;
  const Form form = forms(xs[0]).made;
  std::vector<ValueId> inputs;
  for (const TensorId x : xs) inputs.push_back(in(x, form));
  return hold(y, form, node(kind, name, inputs, extents(inputs[0]), attributes));
}

TensorId ProgramBuilder::relu(const std::string& name, TensorId x) {
  return element_wise("relu", name, {x}, GraphBuilder::relu(name, x));
}

TensorId ProgramBuilder::gelu(const std::string& name, TensorId x) {
  return element_wise("gelu", name, {x}, GraphBuilder::gelu(name, x), {{"approximate", "none"}});
}

TensorId ProgramBuilder::add(const std::string& name, TensorId a, TensorId b, ReluFused fused) {
  const TensorId sum = element_wise("add", name, {a, b}, GraphBuilder::add(name, a, b));
  return fused.relu ? relu(name + ".relu", sum) : sum;
}

TensorId ProgramBuilder::mul(const std::string& name, TensorId a, TensorId b) {
  return element_wise("mul", name, {a, b}, GraphBuilder::mul(name, a, b));
}

TensorId ProgramBuilder::add_rows(const std::string& name, TensorId a, TensorId row) {
  const TensorId y = GraphBuilder::add_rows(name, a, row);
  if (failed()) return y;
  return hold(y, Form::kRows,
              node("add", name, {rows(a, tokens(a)), rows(row, tokens(row))}, tokens(y)));
}

// Both kinds of dropout return x itself if p is 0.
TensorId ProgramBuilder::random(const char* kind, const std::string& name, TensorId x, TensorId y,
                                double p, std::uint32_t site) {
  if (y == x) return y;
  return element_wise(kind, name, {x}, y, {{"p", p}, {"site", std::int64_t{site}}});
}

TensorId ProgramBuilder::dropout(const std::string& name, TensorId x, double p) {
  const std::uint32_t site = next_site();
  return random("dropout", name, x, GraphBuilder::dropout(name, x, p), p, site);
}

TensorId ProgramBuilder::drop_path(const std::string& name, TensorId x, double p) {
  const std::uint32_t site = next_site();
  return random("sample_dropout", name, x, GraphBuilder::drop_path(name, x, p), p, site);
}

// --- Attention.

// [b,t,heads*d] becomes [b,heads,t,d].
ValueId ProgramBuilder::heads(const std::string& name, ValueId x, std::int64_t heads) {
  const Extents from = extents(x);
  const ValueId split = reshaped(name, x, {from[0], from[1], heads, from[2] / heads});
  return permuted(name, split, {0, 2, 1, 3});
}

TensorId ProgramBuilder::attend(const std::string& name, const std::vector<ValueId>& qkv,
                                TensorId y, const AttentionOptions& o, std::uint32_t site) {
  std::vector<ValueId> inputs;
  for (const ValueId x : qkv) inputs.push_back(heads(name, x, o.heads));
  inputs.push_back(o.mask == kNoTensor ? kNoValue : rows(o.mask, whole(o.mask)));
  inputs.push_back(o.bias == kNoTensor ? kNoValue : rows(o.bias, whole(o.bias)));
  inputs.push_back(o.length == kNoTensor ? kNoValue : rows(o.length, {shape(o.length).front()}));
  // Optional inputs at the end are left out; those before a present one stay as gaps.
  while (inputs.back() == kNoValue) inputs.pop_back();
  const Extents to = extents(inputs[0]);
  const double scale = o.scale ? *o.scale : 1.0 / std::sqrt(static_cast<double>(to[3]));
  Attributes attributes{{"scale", scale}};
  if (o.dropout > 0.0) {
    attributes.push_back({"dropout", o.dropout});
    attributes.push_back({"site", std::int64_t{site}});
  }
  const ValueId context = node("attention", name, inputs, to, std::move(attributes));
  return hold(y, Form::kRows, reshaped(name, permuted(name, context, {0, 2, 1, 3}), tokens(y)));
}

TensorId ProgramBuilder::attention(const std::string& name, TensorId q, TensorId k, TensorId v,
                                   const AttentionOptions& o) {
  const std::uint32_t site = next_site();
  const TensorId y = GraphBuilder::attention(name, q, k, v, o);
  if (failed()) return y;
  std::vector<ValueId> qkv;
  for (const TensorId x : {q, k, v})
    qkv.push_back(rows(x, {shape(x)[0], shape(x)[1], shape(x).row()}));
  return attend(name, qkv, y, o, site);
}

TensorId ProgramBuilder::attention(const std::string& name, TensorId packed_qkv,
                                   const AttentionOptions& o) {
  const std::uint32_t site = next_site();
  const TensorId y = GraphBuilder::attention(name, packed_qkv, o);
  if (failed()) return y;
  const Extents to{shape(y)[0], shape(y)[1], shape(y).row()};
  const ValueId packed = rows(packed_qkv, {to[0], to[1], 3 * to[2]});
  std::vector<ValueId> qkv;
  for (std::int64_t part = 0; part < 3; ++part)
    qkv.push_back(
        node("slice", name, {packed}, to,
             {{"axis", std::int64_t{2}}, {"begin", part * to[2]}, {"end", (part + 1) * to[2]}}));
  return attend(name, qkv, y, o, site);
}

// --- Pooling and resizing.

TensorId ProgramBuilder::pool(const char* kind, const std::string& name, TensorId x, TensorId y,
                              const Attributes& attributes) {
  if (failed()) return y;
  return hold(y, Form::kImage, node(kind, name, {image(x)}, pixels(y), attributes));
}

TensorId ProgramBuilder::max_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  const TensorId y = GraphBuilder::max_pool(name, x, o);
  if (failed()) return y;
  const PoolShape& p = graph().ops.back().pool;
  return pool("max_pool", name, x, y,
              {{"kernel", Ints{p.kh, p.kw}},
               {"stride", Ints{p.stride_h, p.stride_w}},
               {"padding", Ints{p.pad_h, p.pad_w}},
               {"dilation", Ints{1, 1}}});
}

TensorId ProgramBuilder::adaptive_avg_pool(const std::string& name, TensorId x, std::int64_t h,
                                           std::int64_t w) {
  return pool("adaptive_avg_pool", name, x, GraphBuilder::adaptive_avg_pool(name, x, h, w),
              {{"size", Ints{h, w}}});
}

TensorId ProgramBuilder::global_avg_pool(const std::string& name, TensorId x) {
  return pool("adaptive_avg_pool", name, x, GraphBuilder::global_avg_pool(name, x),
              {{"size", Ints{1, 1}}});
}

TensorId ProgramBuilder::upsample2(const std::string& name, TensorId x) {
  const TensorId y = GraphBuilder::upsample2(name, x);
  if (failed()) return y;
  return pool("resize", name, x, y,
              {{"size", Ints{shape(y)[Axis::kH], shape(y)[Axis::kW]}}, {"mode", "nearest"}});
}

// --- Moves.

TensorId ProgramBuilder::move(const char* kind, const std::string& name, TensorId x, TensorId y,
                              const Attributes& attributes) {
  if (failed()) return y;
  return hold(y, Form::kRows, node(kind, name, {rows(x, whole(x))}, whole(y), attributes));
}

TensorId ProgramBuilder::reshape(const std::string& name, TensorId x, TensorShape shape) {
  const TensorId y = GraphBuilder::reshape(name, x, shape);
  if (failed() || y == x) return y;
  return hold(y, Form::kRows, rows(x, whole(y)));
}

TensorId ProgramBuilder::flatten(const std::string& name, TensorId x) {
  const TensorId y = GraphBuilder::flatten(name, x);
  if (!failed() && y != x) flattened_[y] = x;
  return y;
}

TensorId ProgramBuilder::concat(const std::string& name, const std::vector<TensorId>& xs,
                                int axis) {
  const TensorId y = GraphBuilder::concat(name, xs, axis);
  if (failed()) return y;
  // Channels are axis 1 of an image and the last axis of rows. The built-in models concatenate
  // along no other axis.
  ES_CHECK_MSG(axis == Axis::kC, name);
  const Form form = forms(xs[0]).made;
  std::vector<ValueId> inputs;
  for (const TensorId x : xs) inputs.push_back(in(x, form));
  const Extents to = form == Form::kImage ? pixels(y) : tokens(y);
  const auto channels = form == Form::kImage ? 1 : static_cast<std::int64_t>(to.size()) - 1;
  return hold(y, form, node("concat", name, inputs, to, {{"axis", channels}}));
}

TensorId ProgramBuilder::slice(const std::string& name, TensorId x, int axis, std::int64_t begin,
                               std::int64_t count) {
  return move("slice", name, x, GraphBuilder::slice(name, x, axis, begin, count),
              {{"axis", std::int64_t{axis}}, {"begin", begin}, {"end", begin + count}});
}

TensorId ProgramBuilder::pad(const std::string& name, TensorId x, int axis, std::int64_t before,
                             std::int64_t after) {
  Ints befores(4, 0), afters(4, 0);
  befores[static_cast<std::size_t>(axis)] = before;
  afters[static_cast<std::size_t>(axis)] = after;
  return move("pad", name, x, GraphBuilder::pad(name, x, axis, before, after),
              {{"before", befores}, {"after", afters}});
}

TensorId ProgramBuilder::permute(const std::string& name, TensorId x,
                                 const std::vector<int>& order) {
  return move("permute", name, x, GraphBuilder::permute(name, x, order),
              {{"order", Ints(order.begin(), order.end())}});
}

TensorId ProgramBuilder::roll(const std::string& name, TensorId x, int axis, std::int64_t shift) {
  return move("roll", name, x, GraphBuilder::roll(name, x, axis, shift),
              {{"axis", std::int64_t{axis}}, {"shift", shift}});
}

TensorId ProgramBuilder::window_partition(const std::string& name, TensorId x, std::int64_t side) {
  const TensorId y = GraphBuilder::window_partition(name, x, side);
  if (failed()) return y;
  const ImageShape in = GraphBuilder::image(x);
  const ValueId split =
      reshaped(name, rows(x, whole(x)), {in.n, in.h / side, side, in.w / side, side, in.c});
  return hold(y, Form::kRows, reshaped(name, permuted(name, split, {0, 1, 3, 2, 4, 5}), tokens(y)));
}

TensorId ProgramBuilder::window_reverse(const std::string& name, TensorId windows,
                                        std::int64_t side, ImageShape image) {
  const TensorId y = GraphBuilder::window_reverse(name, windows, side, image);
  if (failed()) return y;
  const ValueId split =
      rows(windows, {image.n, image.h / side, image.w / side, side, side, image.c});
  return hold(y, Form::kRows, reshaped(name, permuted(name, split, {0, 1, 3, 2, 4, 5}), whole(y)));
}

// The channels as [groups,c/groups], transposed.
ValueId ProgramBuilder::shuffled(const std::string& name, ValueId x, std::int64_t groups) {
  const Extents from = extents(x);
  const ValueId split = reshaped(name, x, {from[0], groups, from[1] / groups, from[2], from[3]});
  return reshaped(name, permuted(name, split, {0, 2, 1, 3, 4}), from);
}

TensorId ProgramBuilder::channel_shuffle(const std::string& name, TensorId x, std::int64_t groups) {
  const TensorId y = GraphBuilder::channel_shuffle(name, x, groups);
  if (failed()) return y;
  return hold(y, Form::kImage, shuffled(name, image(x), groups));
}

std::pair<TensorId, TensorId> ProgramBuilder::concat_shuffle_split(const std::string& name,
                                                                   TensorId a, TensorId b) {
  const std::pair<TensorId, TensorId> ys = GraphBuilder::concat_shuffle_split(name, a, b);
  if (failed()) return ys;
  const Extents half = pixels(a);
  const std::int64_t channels = half[1];
  // One call of the engine becomes six nodes, which move the same values: a concatenation, the
  // shuffle (a reshape, a permutation, a reshape) and two slices.
  const ValueId both = node("concat", name, {image(a), image(b)},
                            {half[0], 2 * channels, half[2], half[3]}, {{"axis", std::int64_t{1}}});
  const ValueId all = shuffled(name, both, 2);
  std::int64_t begin = 0;
  for (const TensorId y : {ys.first, ys.second}) {
    hold(y, Form::kImage,
         node("slice", name, {all}, half,
              {{"axis", std::int64_t{1}}, {"begin", begin}, {"end", begin + channels}}));
    begin += channels;
  }
  return ys;
}

// --- Losses.

void ProgramBuilder::loss(const char* kind, const std::string& name,
                          const std::vector<ValueId>& inputs, Attributes attributes) {
  program_.loss = node(kind, name, inputs, {}, std::move(attributes));
}

// The classes of the node's logits are axis 1, and its labels have all other axes.
void ProgramBuilder::cross_entropy(const std::string& name, TensorId logits, TensorId labels,
                                   const LossTerms& terms) {
  ES_CHECK(terms == LossTerms{});  // only models that are written as programs have them
  GraphBuilder::cross_entropy(name, logits, labels);
  if (failed()) return;
  ValueId x = rows(logits, tokens(logits));
  Extents labelled = extents(x);
  labelled.pop_back();
  // PyTorch has the classes on axis 1 and the engine has them last.
  if (labelled.size() == 2) x = permuted(name, x, {0, 2, 1});
  if (labelled.size() == 3) x = image(logits);
  loss("cross_entropy", name, {x, rows(labels, labelled)}, {{"reduction", "mean"}});
}

void ProgramBuilder::bce_with_logits(const std::string& name, TensorId logits, TensorId targets) {
  GraphBuilder::bce_with_logits(name, logits, targets);
  if (failed()) return;
  const ValueId x = rows(logits, tokens(logits));
  loss("bce_with_logits", name, {x, rows(targets, extents(x))}, {{"reduction", "mean"}});
}

void ProgramBuilder::yolo(const std::string& name, const std::vector<TensorId>& outputs,
                          TensorId boxes, const YoloShape& shape, std::int64_t image_h,
                          std::int64_t image_w) {
  GraphBuilder::yolo(name, outputs, boxes, shape, image_h, image_w);
  if (failed()) return;
  std::vector<ValueId> inputs;
  for (const TensorId output : outputs) inputs.push_back(image(output));
  const ImageShape b = GraphBuilder::image(boxes);
  inputs.push_back(rows(boxes, {b.n, b.image() / 5, 5}));
  std::vector<double> anchors;
  for (std::size_t s = 0; s < outputs.size(); ++s)
    for (std::size_t a = 0; a < std::size(shape.anchor_w[s]); ++a) {
      anchors.push_back(double{shape.anchor_w[s][a]});
      anchors.push_back(double{shape.anchor_h[s][a]});
    }
  loss("yolo", name, inputs,
       {{"classes", shape.classes}, {"image", Ints{image_h, image_w}}, {"anchors", anchors}});
}

Result<Graph> ProgramBuilder::finish(const std::vector<TensorId>& outputs) {
  for (std::size_t i = 0; i < outputs.size() && !failed(); ++i)
    program_.outputs.push_back(
        {.name = outputs.size() == 1 ? "logits" : "logits_" + std::to_string(i),
         .value = in(outputs[i], forms(outputs[i]).made)});
  return GraphBuilder::finish(outputs);
}

}  // namespace es::gpu
