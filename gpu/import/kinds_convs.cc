// Convolutions.
#include <algorithm>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

Status check_conv_operands(const NodeView& node, std::int64_t in_channels,
                           std::int64_t out_channels) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  const std::int64_t groups = node.integer("groups");
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
    return usage_error("x " + shape_text(x) + " and weight " + shape_text(w) +
                       " must both have 1 to 3 spatial axes");
  // The engine works on each group by itself, so both numbers of channels must be multiples.
  if (x[1] != in_channels || x[1] % groups != 0 || out_channels % groups != 0)
    return usage_error("x " + shape_text(x) + " and weight " + shape_text(w) +
                       " do not fit with groups = " + std::to_string(groups));
  if (node.has(2) && node.shape(2) != TensorShape{out_channels})
    return usage_error("bias " + shape_text(node.shape(2)) + " must be " +
                       shape_text({out_channels}));
  return check_spatial(node, {"stride", "padding", "dilation"});
}

Outputs conv_outputs(const NodeView& node) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  const std::int64_t groups = node.integer("groups");
  if (w.rank() < 2 || w[1] > kValueElementsMax / groups)
    return usage_error("weight " + shape_text(w) + " must be [o,c/groups,kernel...]");
  ES_RETURN_IF_ERROR(check_conv_operands(node, w[1] * groups, w[0]));
  TensorShape y{x[0], w[0]};
  for (int axis = 2; axis < x.rank(); ++axis) {
    const auto d = static_cast<std::size_t>(axis) - 2;
    // A dilated kernel reaches over dilation * (taps - 1) + 1 elements.
    const std::int64_t reach = node.integers("dilation")[d] * (w[axis] - 1) + 1;
    const std::int64_t room = x[axis] + 2 * node.integers("padding")[d] - reach;
    if (room < 0)
      return usage_error("kernel " + shape_text(w) + " is larger than its padded input " +
                         shape_text(x));
    y.append(room / node.integers("stride")[d] + 1);
  }
  return one_output(ValueType::kF32, y);
}

// --- Lowering. A convolution runs on images [n,h,w,c]. A value [n,c,l] is an image with one line,
// and a value with three spatial axes is a volume [n,d,h,w,c].

struct Spatial {
  std::int64_t h, w;
};

// The attributes of a convolution along h and w. Padding may differ at the four edges, and may be
// negative, which crops.
struct ConvPlan {
  Spatial stride, before, after, dilation;
};

// The same along d.
struct DepthPlan {
  std::int64_t taps = 1, stride = 1, before = 0, after = 0, dilation = 1;
};

struct VolumePlan {
  DepthPlan depth;
  ConvPlan image;
};

VolumePlan plan_of(const NodeView& node) {
  // Along d, h and w; `missing` stands for axes that the value does not have.
  const auto of_axes = [&](const char* name, std::int64_t missing) {
    std::vector<std::int64_t> list = node.integers(name);
    // The attributes name the last axes, so the missing ones are in front.
    list.insert(list.begin(), 3 - list.size(), missing);
    return list;
  };
  // The operator has one stride for h and w. A missing axis has one element, so its stride is free
  // and takes the first one that is stated; a value [n,c,l] then needs no detour over strided
  // slices.
  const std::vector<std::int64_t> stride = of_axes("stride", node.integers("stride")[0]);
  const std::vector<std::int64_t> padding = of_axes("padding", 0);
  const std::vector<std::int64_t> dilation = of_axes("dilation", 1);
  const TensorShape& w = node.shape(1);
  const Spatial pad{padding[1], padding[2]};
  return {{w.rank() == 5 ? w[2] : 1, stride[0], padding[0], padding[0], dilation[0]},
          {{stride[1], stride[2]}, pad, pad, {dilation[1], dilation[2]}}};
}

TensorId padded_axis(GraphBuilder& b, const std::string& name, TensorId x, int axis,
                     std::int64_t before, std::int64_t after) {
  const std::int64_t cut_before = std::max<std::int64_t>(0, -before);
  const std::int64_t cut = cut_before + std::max<std::int64_t>(0, -after);
  if (cut > 0) x = b.slice(name, x, axis, cut_before, b.shape(x)[axis] - cut);
  before = std::max<std::int64_t>(0, before);
  after = std::max<std::int64_t>(0, after);
  return before + after == 0 ? x : b.pad(name, x, axis, before, after);
}

TensorId padded_image(GraphBuilder& b, const std::string& name, TensorId x, const Spatial& before,
                      const Spatial& after) {
  x = padded_axis(b, name, x, Axis::kH, before.h, after.h);
  return padded_axis(b, name, x, Axis::kW, before.w, after.w);
}

// Appends the convolution `op`, which has kernel, groups and weights; its input has been padded.
TensorId plain_conv(GraphBuilder& b, Op op, TensorId x, std::int64_t stride, std::int64_t pad) {
  op.in[0] = x;
  op.conv.stride = stride;
  op.conv.pad = pad;
  return b.apply(std::move(op));
}

// Pixels at distances of a dilation form images of their own, which a plain convolution reads: the
// pixels (i * d.h + a, j * d.w + b) are the image (a, b). Zeros fill the images up to one size, and
// the last slices cut off what was computed from them. So a dilation costs moves, and no kernel has
// to know it.
TensorId dilated_conv(GraphBuilder& b, const Op& op, TensorId x, const Spatial& d) {
  const std::string& name = op.name;
  const ImageShape in = b.image(x);
  const std::int64_t rows = (in.h + d.h - 1) / d.h, columns = (in.w + d.w - 1) / d.w;
  x = padded_image(b, name, x, {0, 0}, {rows * d.h - in.h, columns * d.w - in.w});
  x = b.reshape(name, x, {in.n, rows, d.h, columns, d.w, in.c});
  x = b.permute(name, x, {0, 2, 4, 1, 3, 5});
  x = b.reshape(name, x, {in.n * d.h * d.w, rows, columns, in.c});
  const TensorId y = plain_conv(b, op, x, 1, 0);
  const ImageShape out = b.image(y);
  TensorId whole = b.reshape(name, y, {in.n, d.h, d.w, out.h, out.w, out.c});
  whole = b.permute(name, whole, {0, 3, 1, 4, 2, 5});
  whole = b.reshape(name, whole, {in.n, out.h * d.h, out.w * d.w, out.c});
  // An extent n gives n - d * (k - 1) results.
  whole = b.slice(name, whole, Axis::kH, 0, in.h - d.h * (op.conv.kh - 1));
  return b.slice(name, whole, Axis::kW, 0, in.w - d.w * (op.conv.kw - 1));
}

TensorId every(GraphBuilder& b, const std::string& name, TensorId x, int axis, std::int64_t step) {
  const std::int64_t count = (b.shape(x)[axis] + step - 1) / step;
  return step == 1 ? x : b.strided_slice(name, x, axis, 0, step, count);
}

// Any convolution of x [n,h,w,c]. The operator has one stride, one padding of all edges, and no
// dilation; everything else becomes moves around it. Each result is the same sum in the same order,
// since padding counts as +0 in the definition.
TensorId convolve(GraphBuilder& b, Op op, TensorId x, const ConvPlan& plan) {
  const bool dilated = plan.dilation.h * plan.dilation.w > 1;
  const Spatial before = plan.before, after = plan.after;
  const bool one_pad = before.h == before.w && before.h == after.h && before.h == after.w;
  const bool one_stride = plan.stride.h == plan.stride.w;
  const bool pads_itself = one_pad && before.h >= 0 && !dilated;
  if (!pads_itself) x = padded_image(b, op.name, x, before, after);
  const std::int64_t pad = pads_itself ? before.h : 0;
  if (!dilated && one_stride) return plain_conv(b, std::move(op), x, plan.stride.h, pad);
  const std::string name = op.name;
  // A convolution with two strides is computed with stride 1, and then every stride-th result is
  // taken: the same results, at the cost of those that are dropped.
  TensorId y =
      dilated ? dilated_conv(b, op, x, plan.dilation) : plain_conv(b, std::move(op), x, 1, pad);
  y = every(b, name, y, Axis::kH, plan.stride.h);
  return every(b, name, y, Axis::kW, plan.stride.w);
}

// Returns the input as a volume.
TensorId volume_input(Lowering& l, const NodeView& node) {
  const TensorShape& x = node.shape();
  const int rank = x.rank();
  const TensorShape shape{x[0], rank == 5 ? x[2] : 1, rank == 3 ? 1 : x[rank - 2], x.row(), x[1]};
  return l.builder().reshape(node.label(), l.in(node, 0, channels_last(rank)), shape);
}

// Lays the depths that each output reads side by side as channels, [n*d,h,w,groups*taps*c/groups].
// So the sum over the taps along d is a part of the sum over channels, and a convolution of images
// computes a convolution of volumes. The taps are inside a group, because the operator divides its
// channels by groups.
TensorId depths_as_channels(GraphBuilder& b, const std::string& name, TensorId x,
                            const DepthPlan& depth, std::int64_t groups) {
  x = padded_axis(b, name, x, 1, depth.before, depth.after);
  const TensorShape in = b.shape(x);
  const std::int64_t reach = depth.dilation * (depth.taps - 1) + 1;
  const std::int64_t count = (in[1] - reach) / depth.stride + 1;
  std::vector<TensorId> taps;
  for (std::int64_t tap = 0; tap < depth.taps; ++tap) {
    const TensorId y = b.strided_slice(name, x, 1, tap * depth.dilation, depth.stride, count);
    taps.push_back(b.reshape(name, y, {in[0] * count, in[2], in[3], groups, in[4] / groups}));
  }
  const TensorId y = concat_all(b, name, std::move(taps), 4);
  return b.reshape(name, y, {in[0] * count, in[2], in[3], depth.taps * in[4]});
}

Op conv_op(const NodeView& node, std::int64_t out_channels) {
  const TensorShape& w = node.shape(1);
  return {.kind = OpKind::kConv2d,
          .name = node.label(),
          .in = {kNoTensor},
          .conv = {.oc = out_channels,
                   .kh = w.rank() == 3 ? 1 : w[w.rank() - 2],
                   .kw = w.row(),
                   .groups = node.integer("groups")}};
}

// Any convolution of a volume. `op` has its weight with the taps along d in front of the channels.
TensorId convolve_volume(GraphBuilder& b, Op op, TensorId x, const VolumePlan& plan) {
  const TensorShape in = b.shape(x);
  const bool is_flat =
      in[1] == 1 && plan.depth.taps == 1 && plan.depth.before == 0 && plan.depth.after == 0;
  const TensorId images = is_flat ? b.reshape(op.name, x, {in[0], in[2], in[3], in[4]})
                                  : depths_as_channels(b, op.name, x, plan.depth, op.conv.groups);
  return convolve(b, std::move(op), images, plan.image);
}

// A weight [o,d,h,w,c] of a volume becomes [o,h,w,d*c].
TensorId depth_weight(GraphBuilder& b, const std::string& name, TensorId weight) {
  const TensorShape w = b.shape(weight);
  const TensorId moved = w[1] == 1 ? weight : b.permute(name, weight, {0, 2, 3, 1, 4});
  return b.reshape(name, moved, {w[0], w[2], w[3], w[1] * w[4]});
}

// A weight [o,k,c] that is a tensor becomes [o,1,k,c].
void add_line(GraphBuilder& b, Op& op) {
  TensorId& weight = op.in[static_cast<std::size_t>(op.tensors.weight)];
  const TensorShape w = b.shape(weight);
  weight = b.reshape(op.name, weight, {w[0], 1, w[1], w[2]});
}

void lower_conv(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const TensorShape& x = node.shape();
  const AxisOrder order = channels_last(x.rank());
  const VolumePlan plan = plan_of(node);
  Op op = conv_op(node, node.shape(1)[0]);
  if (x.rank() == 5) {
    op.tensors.weight = 1;
    op.in.push_back(depth_weight(b, op.name, l.in(node, 1, order)));
    if (node.has(2)) l.set_bias(op, node.input(2));
    return l.set(node, convolve_volume(b, std::move(op), volume_input(l, node), plan), order);
  }
  TensorId image = l.in(node, 0, order);
  l.set_weights(op, node, order);
  if (x.rank() == 3) {
    image = b.reshape(op.name, image, {x[0], 1, x[2], x[1]});
    if (op.tensors.weight >= 0) add_line(b, op);
  }
  l.set(node, convolve(b, std::move(op), image, plan.image), order);
}

// --- Transposed convolutions: a convolution of the input with zeros between its pixels, and with
// the weight turned around. So the forward pass and the gradients are those of plain convolutions.
// With stride s, padding p, dilation d and k taps, s - 1 zeros are inserted, the stride becomes
// 1, and the padding d * (k - 1) - p, which may be negative.

// [c,o/groups,kernel...] becomes [o,d,h,w,c/groups].
TensorId turned_weight(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const TensorShape& w = node.shape(1);
  const int rank = w.rank();
  const std::int64_t groups = node.integer("groups");
  const std::int64_t kernel[] = {rank == 5 ? w[2] : 1, rank == 3 ? 1 : w[rank - 2], w.row()};
  TensorId t = b.reshape(name, l.logical(node, 1),
                         {groups, w[0] / groups, w[1], kernel[0], kernel[1], kernel[2]});
  t = b.permute(name, t, {0, 2, 3, 4, 5, 1});
  for (int d = 0; d < 3; ++d)
    // Turned around: tap i of the convolution is tap k - 1 - i of the transposed one.
    if (kernel[d] > 1) t = b.strided_slice(name, t, 2 + d, kernel[d] - 1, -1, kernel[d]);
  return b.reshape(name, t, {groups * w[1], kernel[0], kernel[1], kernel[2], w[0] / groups});
}

// Puts step - 1 zeros after each element of the axis but the last one. Each element becomes a row
// of its own, which is padded to the length of the step.
TensorId spread(GraphBuilder& b, const std::string& name, TensorId x, int axis, std::int64_t step) {
  const TensorShape in = b.shape(x);
  if (step == 1 || in[axis] == 1) return x;
  const TensorShape split{in.count(0, axis + 1), 1, in.count(axis + 1, in.rank())};
  x = b.pad(name, b.reshape(name, x, split), 1, 0, step - 1);
  x = b.reshape(name, x, with_extent(in, axis, in[axis] * step));
  return b.slice(name, x, axis, 0, (in[axis] - 1) * step + 1);
}

void lower_conv_transpose(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  VolumePlan plan = plan_of(node);
  auto& [depth, image] = plan;
  TensorId x = volume_input(l, node);
  x = spread(b, name, x, 1, depth.stride);
  x = spread(b, name, x, 2, image.stride.h);
  x = spread(b, name, x, 3, image.stride.w);
  Op op = conv_op(node, node.shape(1)[1] * node.integer("groups"));
  std::vector<std::int64_t> more = node.integers("output_padding");
  // PyTorch's output_padding adds results at the end of an axis only.
  more.insert(more.begin(), 3 - more.size(), 0);
  depth.stride = 1;
  depth.before = depth.dilation * (depth.taps - 1) - depth.before;
  depth.after = depth.before + more[0];
  image.stride = {1, 1};
  image.before = {image.dilation.h * (op.conv.kh - 1) - image.before.h,
                  image.dilation.w * (op.conv.kw - 1) - image.before.w};
  image.after = {image.before.h + more[1], image.before.w + more[2]};
  op.tensors.weight = 1;
  op.in.push_back(depth_weight(b, name, turned_weight(l, node)));
  if (node.has(2)) l.set_bias(op, node.input(2));
  l.set(node, convolve_volume(b, std::move(op), x, plan), channels_last(node.shape().rank()));
}

std::vector<AttributeRule> conv_attributes() {
  return {integers("stride", 1, kSpatialMax), integers("padding", 0, kSpatialMax),
          integers("dilation", 1, kSpatialMax), integer("groups", 1, kSpatialMax).or_else(1.0)};
}

Outputs conv_transpose_outputs(const NodeView& node) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  const std::int64_t groups = node.integer("groups");
  if (w.rank() < 2 || w[1] > kValueElementsMax / groups)
    return usage_error("weight " + shape_text(w) + " must be [c,o/groups,kernel...]");
  ES_RETURN_IF_ERROR(check_conv_operands(node, w[0], w[1] * groups));
  ES_RETURN_IF_ERROR(check_spatial(node, {"output_padding"}));
  TensorShape y{x[0], w[1] * groups};
  for (int axis = 2; axis < x.rank(); ++axis) {
    const auto d = static_cast<std::size_t>(axis) - 2;
    const std::int64_t extent =
        (x[axis] - 1) * node.integers("stride")[d] - 2 * node.integers("padding")[d] +
        node.integers("dilation")[d] * (w[axis] - 1) + node.integers("output_padding")[d] + 1;
    if (extent < 1) return usage_error("padding leaves nothing of " + shape_text(x));
    y.append(extent);
  }
  return one_output(ValueType::kF32, y);
}

}  // namespace

std::vector<Kind> conv_kinds() {
  std::vector<AttributeRule> transposed = conv_attributes();
  transposed.push_back(integers("output_padding", 0, kSpatialMax));
  return {
      {.name = "conv",
       .result = "the convolution, over one to three spatial axes",
       .slots =
           {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"},
            {.name = "weight", .types = "f", .kernel = true, .shape = "[o,c/groups,kernel...]"},
            {"bias", "f", true}},
       .attributes = conv_attributes(),
       .outputs = conv_outputs,
       .lower = lower_conv},
      {.name = "conv_transpose",
       .result = "the gradient of a `conv` to its input",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"},
                 {.name = "weight", .types = "f", .shape = "[c,o/groups,kernel...]"},
                 {"bias", "f", true}},
       .attributes = std::move(transposed),
       .outputs = conv_transpose_outputs,
       .lower = lower_conv_transpose},
  };
}

}  // namespace es::gpu
