// Convolutions as products (G1). The forward pass has k = (kh, kw, c). The data gradient has k =
// (kh, kw, oc) over the taps of a stride phase. The weight gradient has k = (n, oh, ow). A group is
// an item of a batch.
#include "gpu/canonical/shapes.h"
#include "gpu/cuda/kernels/depthwise.h"
#include "gpu/cuda/kernels/gemm.h"
#include "gpu/cuda/kernels/product.h"
#include "gpu/cuda/kernels/topics.h"
#include "gpu/cuda/kernels/windows.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

std::uint32_t u32(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}
std::int32_t i32(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}

// The rows of B are the weights as they lie in memory, [oc][kh][kw][c]: the k of a forward
// convolution are contiguous.
Matrix<QuadAlongDepth> weights_by_oc(const ConvShape& s, const float* w) {
  const std::int64_t depth = taps(s) * group_c(s);
  return {w,
          depth,
          1,
          u32(group_oc(s)),
          {.inner = group_oc(s) * depth},
          in_quads(w, depth) && group_c(s) % 4 == 0};
}

Image image(const float* p, std::int64_t height, std::int64_t width, std::int64_t channels) {
  return {p, u32(height), u32(width), u32(channels)};
}

// If one tap visits every pixel, x, w and y are plain matrices.
bool is_pointwise(const ConvShape& s) {
  return taps(s) == 1 && s.stride == 1 && s.pad == 0 && s.groups == 1;
}

// --- Forward pass.
ProductShape forward_shape(const ConvShape& s) {
  return {.m = s.n * s.oh() * s.ow(),
          .n = group_oc(s),
          .k = taps(s) * group_c(s),
          .count = s.groups,
          .inner = s.groups};
}

std::size_t conv_fwd_workspace_floats(const ConvShape& s) {
  return is_depthwise(s) ? depthwise_weights_floats(s) : product_workspace_floats(forward_shape(s));
}

void conv_fwd(Stream stream, const ConvShape& s, const float* x, const float* w, const float* bias,
              float* y, float* ws) {
  if (is_depthwise(s)) return depthwise_fwd(stream, s, x, w, bias, y, ws);
  const ProductShape shape = forward_shape(s);
  if (is_pointwise(s)) {
    const GemmShape product{
        .m = shape.m, .n = s.oc, .k = s.c, .a_row = s.c, .b_row = 1, .b_col = s.c, .c_row = s.oc};
    return multiply_matrices(stream, product, {}, x, w, bias, y, ws);
  }
  const BatchSteps groups{.inner = group_c(s)};
  const bool quads = in_quads(x, s.c) && group_c(s) % 4 == 0;
  const Target target{.c = y,
                      .row = s.oc,
                      .batch = {.inner = group_oc(s)},
                      .quads = in_quads(y, s.oc) && group_oc(s) % 4 == 0,
                      .pixels = {}};
  const Bias added{bias, group_oc(s)};
  const WindowsByPixel windows{
      .image = image(x, s.h, s.w, s.c),
      .grid = {Divider(s.oh() * s.ow()), Divider(s.ow()), i32(-s.pad), i32(-s.pad), i32(s.stride)},
      .taps = {Divider(group_c(s)), Divider(s.kw)},
      .direction = 1,
      .rows = u32(shape.m),
      .batch = groups,
      .quads = quads};
  multiply(stream, shape, windows, weights_by_oc(s, w), target, added, ws);
}

// --- Data gradient. The same taps hit all pixels of a stride phase. The pixels of a phase are
// those with (h + pad) mod stride = tap_row, and the columns likewise.
struct Phase {
  std::int64_t tap_row, tap_col;    // the first taps
  std::int64_t tap_rows, tap_cols;  // numbers of taps
  std::int64_t row, col;            // the first pixel
  std::int64_t rows, cols;          // pixels of an image
};

Phase phase(const ConvShape& s, std::int64_t tap_row, std::int64_t tap_col) {
  const auto count = [&](std::int64_t first, std::int64_t size) {
    return first < size ? ceil_div(size - first, s.stride) : 0;
  };
  const auto pixel = [&](std::int64_t tap) {
    // In C++ the remainder of a negative number may be negative, so the stride is added once.
    return ((tap - s.pad) % s.stride + s.stride) % s.stride;
  };
  const std::int64_t row = pixel(tap_row), col = pixel(tap_col);
  return {tap_row, tap_col, count(tap_row, s.kh), count(tap_col, s.kw),
          row,     col,     count(row, s.h),      count(col, s.w)};
}

ProductShape phase_shape(const ConvShape& s, const Phase& p) {
  return {.m = s.n * p.rows * p.cols,
          .n = group_c(s),
          .k = p.tap_rows * p.tap_cols * group_oc(s),
          .count = s.groups,
          .inner = s.groups};
}

template <class Visit>
void for_each_phase(const ConvShape& s, const Visit& visit) {
  for (std::int64_t row = 0; row < s.stride; ++row) {
    for (std::int64_t col = 0; col < s.stride; ++col) {
      const Phase p = phase(s, row, col);
      // A phase without taps is visited too: its product has no terms, and its pixels get +0.
      if (p.rows > 0 && p.cols > 0) visit(p);
    }
  }
}

std::size_t conv_dgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_weights_floats(s);
  std::size_t most = 0;
  for_each_phase(s, [&](const Phase& p) {
    const std::size_t floats = product_workspace_floats(phase_shape(s, p));
    // The phases run one after the other on one stream, so they share the workspace.
    most = most < floats ? floats : most;
  });
  return most;
}

void dgrad_phase(Stream stream, const ConvShape& s, const Phase& p, const float* dy, const float* w,
                 float* dx, float* ws) {
  const ProductShape shape = phase_shape(s, p);
  const std::int64_t depth = taps(s) * group_c(s);
  const std::uint32_t tap_cols = u32(larger(1, p.tap_cols));  // without taps nothing is read
  const TapOrder order{Divider(group_oc(s)), Divider(tap_cols)};
  // The origin is the output pixel under the first tap; later taps read the pixels before it.
  const WindowsByPixel windows{.image = image(dy, s.oh(), s.ow(), s.oc),
                               .grid = {Divider(p.rows * p.cols), Divider(p.cols),
                                        i32((p.row + s.pad - p.tap_row) / s.stride),
                                        i32((p.col + s.pad - p.tap_col) / s.stride), 1},
                               .taps = order,
                               .direction = -1,
                               .rows = u32(shape.m),
                               .batch = {.inner = group_oc(s)},
                               .quads = in_quads(dy, s.oc) && group_oc(s) % 4 == 0};
  const WeightsByTap weights{.p = w,
                             .taps = order,
                             .oc_step = depth,
                             .first_row = u32(p.tap_row),
                             .first_col = u32(p.tap_col),
                             .step = u32(s.stride),
                             .kernel_width = u32(s.kw),
                             .channels = u32(group_c(s)),
                             .rows = u32(group_c(s)),
                             .batch = {.inner = group_oc(s) * depth},
                             .quads = in_quads(w, group_c(s))};
  const Target target{.c = dx,
                      .row = s.c,
                      .batch = {.inner = group_c(s)},
                      .quads = in_quads(dx, s.c) && group_c(s) % 4 == 0,
                      .pixels = {Divider(p.rows * p.cols), Divider(p.cols), u32(p.row), u32(p.col),
                                 u32(s.stride), u32(s.h), u32(s.w)}};
  multiply(stream, shape, windows, weights, target, Bias{}, ws);
}

void conv_dgrad(Stream stream, const ConvShape& s, const float* dy, const float* w, float* dx,
                float* ws) {
  if (is_depthwise(s)) return depthwise_dgrad(stream, s, dy, w, dx, ws);
  if (is_pointwise(s)) {
    const GemmShape product{
        .m = s.n * s.h * s.w, .n = s.c, .k = s.oc, .a_row = s.oc, .b_row = s.c, .c_row = s.c};
    return multiply_matrices(stream, product, {}, dy, w, nullptr, dx, ws);
  }
  for_each_phase(s, [&](const Phase& p) { dgrad_phase(stream, s, p, dy, w, dx, ws); });
}

// --- Weight gradient.
ProductShape wgrad_shape(const ConvShape& s) {
  return {.m = group_oc(s),
          .n = taps(s) * group_c(s),
          .k = s.n * s.oh() * s.ow(),
          .count = s.groups,
          .inner = s.groups};
}

std::size_t conv_wgrad_workspace_floats(const ConvShape& s) {
  return is_depthwise(s) ? depthwise_wgrad_workspace_floats(s)
                         : product_workspace_floats(wgrad_shape(s));
}

void conv_wgrad(Stream stream, const ConvShape& s, const float* x, const float* dy, float* dw,
                float* ws) {
  if (is_depthwise(s)) return depthwise_wgrad(stream, s, x, dy, dw, ws);
  const ProductShape shape = wgrad_shape(s);
  if (is_pointwise(s)) {
    const GemmShape product{
        .m = s.oc, .n = s.c, .k = shape.k, .a_row = 1, .a_col = s.oc, .b_row = s.c, .c_row = s.c};
    return multiply_matrices(stream, product, {}, dy, x, nullptr, dw, ws);
  }
  const BatchSteps x_groups{.inner = group_c(s)};
  const bool quads = in_quads(x, s.c) && group_c(s) % 4 == 0;
  const Matrix<QuadAlongRows> gradients{dy,
                                        1,
                                        s.oc,
                                        u32(shape.m),
                                        {.inner = group_oc(s)},
                                        in_quads(dy, s.oc) && group_oc(s) % 4 == 0};
  const Target target{.c = dw,
                      .row = shape.n,
                      .batch = {.inner = shape.m * shape.n},
                      .quads = in_quads(dw, shape.n),
                      .pixels = {}};
  const WindowsByTap windows{
      .image = image(x, s.h, s.w, s.c),
      .grid = {Divider(s.oh() * s.ow()), Divider(s.ow()), i32(-s.pad), i32(-s.pad), i32(s.stride)},
      .taps = {Divider(group_c(s)), Divider(s.kw)},
      .rows = u32(shape.n),
      .batch = x_groups,
      .quads = quads};
  multiply(stream, shape, gradients, windows, target, Bias{}, ws);
}

}  // namespace

void add_conv(DeviceKernels& kernels) {
  kernels.conv_fwd_workspace_floats = conv_fwd_workspace_floats;
  kernels.conv_fwd = conv_fwd;
  kernels.conv_dgrad_workspace_floats = conv_dgrad_workspace_floats;
  kernels.conv_dgrad = conv_dgrad;
  kernels.conv_wgrad_workspace_floats = conv_wgrad_workspace_floats;
  kernels.conv_wgrad = conv_wgrad;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
