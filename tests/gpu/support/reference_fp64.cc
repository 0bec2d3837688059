#include "tests/gpu/support/reference_fp64.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "proto/base/check.h"

namespace es::test {
namespace {

using gpu::Op;
using gpu::OpKind;
using gpu::TensorShape;
using Values = std::vector<double>;

class Reference {
 public:
  Reference(const gpu::Graph& graph, const Values& params) : graph_(graph), params_(params) {}

  double loss(const std::vector<float>& images, const std::vector<std::int32_t>& labels) {
    values_.assign(graph_.tensors.size(), {});
    values_[graph_.input].assign(images.begin(), images.end());
    for (const Op& op : graph_.ops) {
      if (op.kind == OpKind::kSoftmaxXent) return cross_entropy(op, labels);
      values_[op.out[0]].assign(static_cast<std::size_t>(graph_.shape(op.out[0]).count()), 0.0);
      run(op);
    }
    ES_CHECK_MSG(false, "a graph ends in a loss");
  }

 private:
  void run(const Op& op) {
    const Values& x = values_[op.in[0]];
    Values& y = values_[op.out[0]];
    switch (op.kind) {
      case OpKind::kConv2d:
        return convolve(op, x, y);
      case OpKind::kLinear:
        return linear(op, x, y);
      case OpKind::kBatchNorm:
        return batch_norm(op, x, y);
      case OpKind::kRelu:
        y = x;
        return rectify(y);
      case OpKind::kAdd:
        for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + values_[op.in[1]][i];
        if (op.relu) rectify(y);
        return;
      case OpKind::kView:
        y = x;
        return;
      case OpKind::kGlobalAvgPool:
        return global_average(op, x, y);
      case OpKind::kMaxPool:
      case OpKind::kAvgPool:
        return pool(op, x, y);
      default:
        ES_CHECK_MSG(false, op.name);
    }
  }

  double param(gpu::ParamId id, std::int64_t i) const {
    return params_[static_cast<std::size_t>(graph_.table[id].offset + i)];
  }

  static void rectify(Values& y) {
    for (double& v : y) v = std::max(v, 0.0);
  }

  static std::int64_t at(const TensorShape& s, std::int64_t n, std::int64_t h, std::int64_t w,
                         std::int64_t c) {
    return ((n * s.h + h) * s.w + w) * s.c + c;
  }

  // Calls visit(h, w, tap) for the window cells of output pixel (oh, ow) that lie in the input.
  template <class Shape, class Visit>
  static void for_window(const Shape& s, std::int64_t oh, std::int64_t ow, Visit visit) {
    for (std::int64_t i = 0; i < s.kh; ++i)
      for (std::int64_t j = 0; j < s.kw; ++j) {
        const std::int64_t h = oh * s.stride + i - s.pad;
        const std::int64_t w = ow * s.stride + j - s.pad;
        if (h >= 0 && h < s.h && w >= 0 && w < s.w) visit(h, w, i * s.kw + j);
      }
  }

  template <class Visit>
  static void for_pixels(const TensorShape& s, Visit visit) {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t h = 0; h < s.h; ++h)
        for (std::int64_t w = 0; w < s.w; ++w)
          for (std::int64_t c = 0; c < s.c; ++c) visit(n, h, w, c);
  }

  void convolve(const Op& op, const Values& x, Values& y) const {
    const TensorShape& in = graph_.shape(op.in[0]);
    const TensorShape& out = graph_.shape(op.out[0]);
    const std::int64_t group_in = in.c / op.conv.groups;
    const std::int64_t group_out = out.c / op.conv.groups;
    const std::int64_t taps = op.conv.kh * op.conv.kw;
    for_pixels(out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t o) {
      double sum = op.bias == gpu::kNoParam ? 0.0 : param(op.bias, o);
      for_window(op.conv, oh, ow, [&](std::int64_t h, std::int64_t w, std::int64_t tap) {
        for (std::int64_t c = 0; c < group_in; ++c)
          sum += x[at(in, n, h, w, o / group_out * group_in + c)] *
                 param(op.weight, (o * taps + tap) * group_in + c);
      });
      y[at(out, n, oh, ow, o)] = sum;
    });
  }

  void linear(const Op& op, const Values& x, Values& y) const {
    const TensorShape& in = graph_.shape(op.in[0]);
    const TensorShape& out = graph_.shape(op.out[0]);
    for (std::int64_t n = 0; n < out.n; ++n)
      for (std::int64_t o = 0; o < out.c; ++o) {
        double sum = op.bias == gpu::kNoParam ? 0.0 : param(op.bias, o);
        for (std::int64_t i = 0; i < in.c; ++i)
          sum += x[n * in.c + i] * param(op.weight, o * in.c + i);
        y[n * out.c + o] = sum;
      }
  }

  void batch_norm(const Op& op, const Values& x, Values& y) const {
    const TensorShape& s = graph_.shape(op.in[0]);
    const auto rows = static_cast<double>(s.rows());
    for (std::int64_t c = 0; c < s.c; ++c) {
      double mean = 0.0, variance = 0.0;
      for (std::int64_t r = 0; r < s.rows(); ++r) mean += x[r * s.c + c] / rows;
      for (std::int64_t r = 0; r < s.rows(); ++r)
        variance += (x[r * s.c + c] - mean) * (x[r * s.c + c] - mean) / rows;
      const double istd = 1.0 / std::sqrt(variance + static_cast<double>(gpu::kBatchNormEps));
      for (std::int64_t r = 0; r < s.rows(); ++r)
        y[r * s.c + c] = (x[r * s.c + c] - mean) * istd * param(op.weight, c) + param(op.bias, c);
    }
    if (op.relu) rectify(y);
  }

  void global_average(const Op& op, const Values& x, Values& y) const {
    const TensorShape& in = graph_.shape(op.in[0]);
    for_pixels(in, [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
      y[n * in.c + c] += x[at(in, n, h, w, c)] / static_cast<double>(in.h * in.w);
    });
  }

  void pool(const Op& op, const Values& x, Values& y) const {
    const TensorShape& in = graph_.shape(op.in[0]);
    const TensorShape& out = graph_.shape(op.out[0]);
    for_pixels(out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t c) {
      double sum = 0.0, best = -std::numeric_limits<double>::infinity();
      int cells = 0;
      for_window(op.pool, oh, ow, [&](std::int64_t h, std::int64_t w, std::int64_t) {
        const double v = x[at(in, n, h, w, c)];
        sum += v;
        best = std::max(best, v);
        ++cells;
      });
      y[at(out, n, oh, ow, c)] = op.kind == OpKind::kMaxPool ? best : sum / cells;
    });
  }

  double cross_entropy(const Op& op, const std::vector<std::int32_t>& labels) const {
    const TensorShape& s = graph_.shape(op.in[0]);
    double total = 0.0;
    for (std::int64_t n = 0; n < s.n; ++n) {
      const double* logits = values_[op.in[0]].data() + n * s.c;
      const double top = *std::max_element(logits, logits + s.c);
      double sum = 0.0;
      for (std::int64_t c = 0; c < s.c; ++c) sum += std::exp(logits[c] - top);
      total += std::log(sum) - (logits[labels[n]] - top);
    }
    return total / static_cast<double>(s.n);
  }

  const gpu::Graph& graph_;
  const Values& params_;
  std::vector<Values> values_;  // by tensor
};

}  // namespace

double reference_loss(const gpu::Graph& graph, const std::vector<double>& params,
                      const std::vector<float>& images, const std::vector<std::int32_t>& labels) {
  return Reference(graph, params).loss(images, labels);
}

}  // namespace es::test
