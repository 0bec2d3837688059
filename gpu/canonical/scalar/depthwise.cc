// Depthwise convolution: k = (kh, kw). Padding taps are skipped. That gives the bits of padding
// that counts as +0, because the last addition to +0 removes the only difference, the sign of a
// zero.
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu::scalar {
namespace {

// Writes the weights as [kh][kw][c], so that the channels of one tap are contiguous.
void pack_taps(const ConvShape& s, const float* w, float* packed) {
  for (std::int64_t t = 0; t < taps(s); ++t) {
    for (std::int64_t c = 0; c < s.c; ++c) *packed++ = w[c * taps(s) + t];
  }
}

}  // namespace

void depthwise_fwd(const ConvShape& s, const float* x, const float* w, const float* bias, float* y,
                   float* packed) {
  pack_taps(s, w, packed);
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c) {
    const std::int64_t n = i / (s.oh() * s.ow()), oh = i / s.ow() % s.oh(), ow = i % s.ow();
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = 0.0f;
    for (std::int64_t kh = 0; kh < s.kh; ++kh) {
      for (std::int64_t kw = 0; kw < s.kw; ++kw) {
        const std::int64_t h = oh * s.stride + kh - s.pad, col = ow * s.stride + kw - s.pad;
        if (h < 0 || h >= s.h || col < 0 || col >= s.w) continue;
        const float* pixel = x + ((n * s.h + h) * s.w + col) * s.c;
        const float* weight = packed + (kh * s.kw + kw) * s.c;
        for (std::int64_t c = 0; c < s.c; ++c) y[c] = fma(pixel[c], weight[c], y[c]);
      }
    }
    // DOT adds the result of its only chunk to +0, which turns -0 into +0.
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = 0.0f + y[c];
    if (bias == nullptr) continue;
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = y[c] + bias[c];
  }
}

void depthwise_dgrad(const ConvShape& s, const float* dy, const float* w, float* dx,
                     float* packed) {
  pack_taps(s, w, packed);
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const std::int64_t n = i / (s.h * s.w), h = i / s.w % s.h, col = i % s.w;
    for (std::int64_t c = 0; c < s.c; ++c) dx[c] = 0.0f;
    for (std::int64_t kh = 0; kh < s.kh; ++kh) {
      for (std::int64_t kw = 0; kw < s.kw; ++kw) {
        const std::int64_t top = h + s.pad - kh, left = col + s.pad - kw;
        // A negative multiple of the stride has the remainder 0 although it lies before the image.
        // So the signs are tested too.
        if (top < 0 || left < 0 || top % s.stride != 0 || left % s.stride != 0) continue;
        const std::int64_t oh = top / s.stride, ow = left / s.stride;
        if (oh >= s.oh() || ow >= s.ow()) continue;
        const float* pixel = dy + ((n * s.oh() + oh) * s.ow() + ow) * s.c;
        const float* weight = packed + (kh * s.kw + kw) * s.c;
        for (std::int64_t c = 0; c < s.c; ++c) dx[c] = fma(pixel[c], weight[c], dx[c]);
      }
    }
    // As in the forward pass: the result of the only chunk is added to +0.
    for (std::int64_t c = 0; c < s.c; ++c) dx[c] = 0.0f + dx[c];
  }
}

namespace {

struct Channels {
  std::int64_t begin, end;
};

// Computes one tap over one block of output rows [oh0, oh1) of image n: a chain over the pixels
// (oh, ow) whose tap lies in the image.
void wgrad_block(const ConvShape& s, const Channels& channels, const float* x, const float* dy,
                 std::int64_t n, std::int64_t oh0, std::int64_t oh1, std::int64_t kh,
                 std::int64_t kw, float* out) {
  for (std::int64_t c = channels.begin; c < channels.end; ++c) out[c] = 0.0f;
  for (std::int64_t oh = oh0; oh < oh1; ++oh) {
    for (std::int64_t ow = 0; ow < s.ow(); ++ow) {
      const std::int64_t h = oh * s.stride + kh - s.pad, w = ow * s.stride + kw - s.pad;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      const float* gradient = dy + ((n * s.oh() + oh) * s.ow() + ow) * s.c;
      const float* pixel = x + ((n * s.h + h) * s.w + w) * s.c;
      for (std::int64_t c = channels.begin; c < channels.end; ++c) {
        out[c] = fma(gradient[c], pixel[c], out[c]);
      }
    }
  }
  for (std::int64_t c = channels.begin; c < channels.end; ++c) out[c] = 0.0f + out[c];
}

// Sums `rows` rows in place into row 0: runs of 64, each a chain that starts from its first
// element, until one row remains. Only the given channels of each of the `taps` groups of a row are
// summed.
void sum_blocks(std::int64_t rows, std::int64_t taps, std::int64_t c, const Channels& channels,
                float* p) {
  const std::int64_t cols = taps * c;
  while (rows > 1) {
    const std::int64_t runs = ceil_div(rows, kColumnRun);
    for (std::int64_t run = 0; run < runs; ++run) {
      float* out = p + run * cols;
      const std::int64_t first = run * kColumnRun, last = smaller(rows, first + kColumnRun);
      for (std::int64_t i = 0; i < cols; ++i) {
        if (i % c < channels.begin || i % c >= channels.end) continue;
        out[i] = p[first * cols + i];
        for (std::int64_t r = first + 1; r < last; ++r) out[i] = out[i] + p[r * cols + i];
      }
    }
    rows = runs;
  }
}

}  // namespace

std::size_t depthwise_wgrad_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(depthwise_blocks(s) * taps(s) * s.c);
}

void depthwise_wgrad(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                     const float* dy, float* dw, float* ws) {
  const std::int64_t rows = depthwise_block_rows(s), cols = taps(s) * s.c;
  const Channels channels{oc_begin, oc_end};
  float* block = ws;  // [block][kh][kw][c], blocks ordered (n, first row)
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oh = 0; oh < s.oh(); oh += rows, block += cols) {
      for (std::int64_t t = 0; t < taps(s); ++t) {
        wgrad_block(s, channels, x, dy, n, oh, smaller(s.oh(), oh + rows), t / s.kw, t % s.kw,
                    block + t * s.c);
      }
    }
  }
  sum_blocks(depthwise_blocks(s), taps(s), s.c, channels, ws);
  for (std::int64_t c = oc_begin; c < oc_end; ++c) {
    for (std::int64_t t = 0; t < taps(s); ++t) dw[c * taps(s) + t] = ws[t * s.c + c];
  }
}

}  // namespace es::gpu::scalar
