#include "gpu/canonical/scalar/dots.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu::scalar {
namespace {

// Returns the address of element (n, row, col) of an NHWC tensor, or nullptr in the padding.
const float* pixel_or_null(const float* x, std::int64_t n, std::int64_t row, std::int64_t col,
                           std::int64_t h, std::int64_t w, std::int64_t c) {
  const bool inside = row >= 0 && row < h && col >= 0 && col < w;
  return inside ? x + ((n * h + row) * w + col) * c : nullptr;
}

// Computes one output pixel of one group: k = (kh, kw, c). The padding takes part as +0.
void fwd_pixel(const ConvShape& s, const float* x, const float* filters, std::int64_t n,
               std::int64_t oh, std::int64_t ow, std::int64_t g, float* acc, float* out) {
  const std::int64_t cg = group_c(s), ocg = group_oc(s);
  const float* w = filters + g * taps(s) * cg * ocg;
  Dots dots(ocg, acc, out);
  for (std::int64_t kh = 0; kh < s.kh; ++kh) {
    for (std::int64_t kw = 0; kw < s.kw; ++kw) {
      const float* pixel = pixel_or_null(x, n, oh * s.stride + kh - s.pad,
                                         ow * s.stride + kw - s.pad, s.h, s.w, s.c);
      for (std::int64_t c = 0; c < cg; ++c, w += ocg) {
        // The padding takes part with +0, so every output pixel has the same number of terms and
        // the same chunks of 512. A kernel that leaves the padding out must keep these chunks.
        dots.step(pixel != nullptr ? pixel[g * cg + c] : 0.0f, w);
      }
    }
  }
  dots.finish();
}

// Computes one input pixel of one group: k = (kh, kw, oc) over the taps that hit a multiple of the
// stride. Output pixels outside the image take part as +0. It computes `count` channels.
void dgrad_pixel(const ConvShape& s, std::int64_t count, const float* dy, const float* w,
                 std::int64_t n, std::int64_t h, std::int64_t col, std::int64_t g, float* acc,
                 float* out) {
  const std::int64_t cg = group_c(s), ocg = group_oc(s);
  Dots dots(count, acc, out);
  for (std::int64_t kh = 0; kh < s.kh; ++kh) {
    for (std::int64_t kw = 0; kw < s.kw; ++kw) {
      const std::int64_t oh = h + s.pad - kh, ow = col + s.pad - kw;
      // Taps between the output pixels are no terms of the sum. They are left out, so they do not
      // fill chunks of 512.
      if (oh % s.stride != 0 || ow % s.stride != 0) continue;
      const float* pixel = pixel_or_null(dy, n, oh / s.stride, ow / s.stride, s.oh(), s.ow(), s.oc);
      for (std::int64_t oc = g * ocg; oc < (g + 1) * ocg; ++oc) {
        dots.step(pixel != nullptr ? pixel[oc] : 0.0f, w + (oc * taps(s) + kh * s.kw + kw) * cg);
      }
    }
  }
  dots.finish();
}

// Computes one tap of one output channel: k = (n, oh, ow). The padding takes part as +0.
void wgrad_tap(const ConvShape& s, const float* x, const float* dy, std::int64_t oc,
               std::int64_t kh, std::int64_t kw, const float* zeros, float* acc, float* out) {
  const std::int64_t cg = group_c(s), first_c = oc / group_oc(s) * cg;
  Dots dots(cg, acc, out);
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oh = 0; oh < s.oh(); ++oh) {
      for (std::int64_t ow = 0; ow < s.ow(); ++ow, dy += s.oc) {
        const float* pixel = pixel_or_null(x, n, oh * s.stride + kh - s.pad,
                                           ow * s.stride + kw - s.pad, s.h, s.w, s.c);
        dots.step(dy[oc], pixel != nullptr ? pixel + first_c : zeros);
      }
    }
  }
  dots.finish();
}

// Writes the weights as [group][kh][kw][c][oc], so that the output channels of one k are
// contiguous.
void transpose_filters(const ConvShape& s, const float* w, float* out) {
  const std::int64_t depth = taps(s) * group_c(s), ocg = group_oc(s);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t o = 0; o < ocg; ++o) *out++ = w[(g * ocg + o) * depth + k];
    }
  }
}

}  // namespace

// The weights as [group][kh][kw][c][oc], and the chunk sums of one pixel.
std::size_t conv_fwd_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(weight_floats(s) + group_oc(s));
}

void conv_fwd(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
              const float* w, const float* bias, float* y, float* ws) {
  if (is_depthwise(s)) return depthwise_fwd(s, x, w, bias, y, ws);
  ConvShape part = s;
  part.oc = oc_end - oc_begin;
  float* acc = ws + weight_floats(part);
  transpose_filters(part, w + oc_begin * taps(s) * group_c(s), ws);
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oh = 0; oh < s.oh(); ++oh) {
      for (std::int64_t ow = 0; ow < s.ow(); ++ow, y += s.oc) {
        for (std::int64_t g = 0; g < s.groups; ++g) {
          fwd_pixel(part, x, ws, n, oh, ow, g, acc, y + oc_begin + g * group_oc(s));
        }
        if (bias == nullptr) continue;
        for (std::int64_t o = oc_begin; o < oc_end; ++o) y[o] = y[o] + bias[o];
      }
    }
  }
}

std::size_t conv_dgrad_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(is_depthwise(s) ? weight_floats(s) : group_c(s));
}

void conv_dgrad(const ConvShape& s, std::int64_t c_begin, std::int64_t c_end, const float* dy,
                const float* w, float* dx, float* ws) {
  if (is_depthwise(s)) return depthwise_dgrad(s, dy, w, dx, ws);
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t h = 0; h < s.h; ++h) {
      for (std::int64_t col = 0; col < s.w; ++col, dx += s.c) {
        for (std::int64_t g = 0; g < s.groups; ++g) {
          dgrad_pixel(s, (c_end - c_begin) / s.groups, dy, w + c_begin, n, h, col, g, ws,
                      dx + c_begin + g * group_c(s));
        }
      }
    }
  }
}

std::size_t conv_wgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_wgrad_workspace_floats(s);
  return static_cast<std::size_t>(2 * group_c(s));
}

void conv_wgrad(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                const float* dy, float* dw, float* ws) {
  if (is_depthwise(s)) return depthwise_wgrad(s, oc_begin, oc_end, x, dy, dw, ws);
  float* zeros = ws + group_c(s);
  for (std::int64_t c = 0; c < group_c(s); ++c) zeros[c] = 0.0f;
  for (std::int64_t oc = oc_begin; oc < oc_end; ++oc) {
    float* filter = dw + oc * taps(s) * group_c(s);
    for (std::int64_t t = 0; t < taps(s); ++t, filter += group_c(s)) {
      wgrad_tap(s, x, dy, oc, t / s.kw, t % s.kw, zeros, ws, filter);
    }
  }
}

}  // namespace es::gpu::scalar
