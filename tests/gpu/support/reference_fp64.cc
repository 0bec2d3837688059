#include "tests/gpu/support/reference_fp64.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"
#include "proto/base/philox.h"
#include "tests/gpu/support/function_fp64.h"

namespace es::test {
namespace {

using gpu::ChainKind;
using gpu::ChainStep;
using gpu::ImageShape;
using gpu::Op;
using gpu::OpKind;
using gpu::TensorId;
using gpu::TensorShape;
using Values = std::vector<double>;  // Integers, as their values.

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// In place over `count` values, which may be -inf.
void softmax(double* x, std::int64_t count) {
  const double top = *std::max_element(x, x + count);
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] = std::exp(x[i] - top);
  for (std::int64_t i = 0; i < count; ++i) x[i] /= sum;
}

class Reference {
 public:
  Reference(const gpu::Graph& graph, const Values& params, const gpu::DropoutKey& key)
      : graph_(graph), params_(params), key_(key), values_(graph.tensors.size()) {}

  double loss(const gpu::Batch& batch) {
    for (std::size_t f = 0; f < graph_.inputs.size(); ++f)
      load(graph_.inputs[f], batch.words + graph_.batch * graph_.layout.offset(f));
    for (const gpu::Constant& c : graph_.constants) load(c.tensor, c.words.data());
    for (const Op& op : graph_.ops) {
      if (gpu::op_def(op.kind).is_loss) return loss_of(op);
      for (const TensorId t : op.out)
        value(t).assign(static_cast<std::size_t>(shape(t).count()), 0.0);
      run(op);
    }
    ES_CHECK_MSG(false, "a graph ends in a loss");
  }

 private:
  void load(TensorId t, const float* words) {
    for (std::int64_t i = 0; i < shape(t).count(); ++i) {
      const bool ids = graph_.tensors[t].type == gpu::ElementType::kI32;
      value(t).push_back(ids ? std::bit_cast<std::int32_t>(words[i]) : words[i]);
    }
  }

  void run(const Op& op) {
    Values& y = value(op.out[0]);
    if (op.kind == OpKind::kUniform) return uniform(op, y);
    if (op.kind == OpKind::kState) return;  // states begin with zeros
    const Values& x = value(op.in[0]);
    switch (op.kind) {
      case OpKind::kConv2d:
        return convolve(op, x, y);
      case OpKind::kLinear:
        return linear(op, x, y);
      case OpKind::kMatmul:
        return matmul(op, x, value(op.in[1]), y);
      case OpKind::kBatchNorm:
        return batch_norm(op, x, y);
      case OpKind::kLayerNorm:
        return layer_norm(op, x, y);
      case OpKind::kChain:
        y = x;
        for (const ChainStep& step : op.chain) stage(op, step, y);
        return;
      case OpKind::kSoftmax:
        y = x;
        for (std::int64_t r = 0; r < shape(op.in[0]).rows(); ++r)
          softmax(y.data() + r * shape(op.in[0]).row(), shape(op.in[0]).row());
        return;
      case OpKind::kAttention:
        return attention(op, y);
      case OpKind::kRecurrent:
        return recurrent(op, x, y);
      case OpKind::kEmbedding:
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::int64_t c = shape(op.out[0]).row(), at = static_cast<std::int64_t>(i);
          y[i] = param(op.weight, static_cast<std::int64_t>(x[at / c]) * c + at % c);
        }
        return;
      case OpKind::kMove:
      case OpKind::kUpsample2:
        return move(op);
      case OpKind::kView:
      case OpKind::kSetState:
        y = x;
        return;
      case OpKind::kProgram:
        return program(op, y);
      case OpKind::kReduce:
      case OpKind::kBestIndex:
        return reduce(op, x, y);
      case OpKind::kRunningSum:
        return running_sum(op, x, y);
      case OpKind::kTakeRows:
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t c = x.size() / static_cast<std::size_t>(shape(op.in[0]).front());
          y[i] = x[static_cast<std::size_t>(value(op.in[1])[i / c]) * c + i % c];
        }
        return;
      case OpKind::kAddRowsAt: {
        const std::size_t c = y.size() / static_cast<std::size_t>(shape(op.out[0]).front());
        for (std::size_t i = 0; i < x.size(); ++i)
          y[static_cast<std::size_t>(value(op.in[1])[i / c]) * c + i % c] += x[i];
        return;
      }
      default:
        return pool(op, x, y);
    }
  }

  Values& value(TensorId t) { return values_[static_cast<std::size_t>(t)]; }
  const Values& value(TensorId t) const { return values_[static_cast<std::size_t>(t)]; }
  const TensorShape& shape(TensorId t) const { return graph_.shape(t); }
  ImageShape image(TensorId t) const { return gpu::image_of(shape(t)); }
  double param(gpu::ParamId id, std::int64_t i) const {
    return params_[static_cast<std::size_t>(graph_.table[id].offset + i)];
  }

  static std::int64_t at(const ImageShape& s, std::int64_t n, std::int64_t h, std::int64_t w,
                         std::int64_t c) {
    return ((n * s.h + h) * s.w + w) * s.c + c;
  }

  static gpu::PoolShape windows_of(const gpu::ConvShape& s) {
    return {.h = s.h,
            .w = s.w,
            .kh = s.kh,
            .kw = s.kw,
            .stride_h = s.stride,
            .stride_w = s.stride,
            .pad_h = s.pad,
            .pad_w = s.pad};
  }

  // Calls visit(h, w, tap) for the window cells of output pixel (oh, ow) that lie in the input.
  template <class Visit>
  static void for_window(const gpu::PoolShape& s, std::int64_t oh, std::int64_t ow, Visit visit) {
    for (std::int64_t i = 0; i < s.kh; ++i)
      for (std::int64_t j = 0; j < s.kw; ++j) {
        const std::int64_t h = oh * s.stride_h + i - s.pad_h;
        const std::int64_t w = ow * s.stride_w + j - s.pad_w;
        if (h >= 0 && h < s.h && w >= 0 && w < s.w) visit(h, w, i * s.kw + j);
      }
  }

  template <class Visit>
  static void for_pixels(const ImageShape& s, Visit visit) {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t h = 0; h < s.h; ++h)
        for (std::int64_t w = 0; w < s.w; ++w)
          for (std::int64_t c = 0; c < s.c; ++c) visit(n, h, w, c);
  }

  void convolve(const Op& op, const Values& x, Values& y) const {
    const ImageShape in = image(op.in[0]), out = image(op.out[0]);
    const std::int64_t group_in = in.c / op.conv.groups;
    const std::int64_t group_out = out.c / op.conv.groups;
    const std::int64_t taps = op.conv.kh * op.conv.kw;
    for_pixels(out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t o) {
      double sum = op.bias == gpu::kNoParam ? 0.0 : param(op.bias, o);
      for_window(windows_of(op.conv), oh, ow,
                 [&](std::int64_t h, std::int64_t w, std::int64_t tap) {
                   for (std::int64_t c = 0; c < group_in; ++c)
                     sum += x[at(in, n, h, w, o / group_out * group_in + c)] *
                            param(op.weight, (o * taps + tap) * group_in + c);
                 });
      y[at(out, n, oh, ow, o)] = sum;
    });
  }

  void linear(const Op& op, const Values& x, Values& y) const {
    const std::int64_t in = shape(op.in[0]).row(), out = shape(op.out[0]).row();
    for (std::int64_t r = 0; r < shape(op.out[0]).rows(); ++r)
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = op.bias == gpu::kNoParam ? 0.0 : param(op.bias, o);
        for (std::int64_t i = 0; i < in; ++i) sum += x[r * in + i] * param(op.weight, o * in + i);
        y[r * out + o] = sum;
      }
  }

  void matmul(const Op& op, const Values& a, const Values& b, Values& y) const {
    const gpu::GemmShape& g = op.matmul.gemm;
    for (std::int64_t p = 0; p < op.matmul.count; ++p)
      for (std::int64_t i = 0; i < g.m; ++i)
        for (std::int64_t j = 0; j < g.n; ++j)
          for (std::int64_t k = 0; k < g.k; ++k)
            y[p * op.matmul.y_step + i * g.c_row + j * g.c_col] +=
                a[p * op.matmul.a_step + i * g.a_row + k * g.a_col] *
                b[p * op.matmul.b_step + k * g.b_row + j * g.b_col];
  }

  // (x - mean) / sqrt(variance + eps) of `count` values that lie `step` apart, in place.
  static void normalise(double* x, std::int64_t count, std::int64_t step, double eps) {
    double mean = 0.0, variance = 0.0;
    const auto n = static_cast<double>(count);
    for (std::int64_t i = 0; i < count; ++i) mean += x[i * step] / n;
    for (std::int64_t i = 0; i < count; ++i)
      variance += (x[i * step] - mean) * (x[i * step] - mean) / n;
    for (std::int64_t i = 0; i < count; ++i)
      x[i * step] = (x[i * step] - mean) / std::sqrt(variance + eps);
  }

  void scale_and_shift(const Op& op, Values& y) const {
    const std::int64_t c = shape(op.in[0]).row();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::int64_t channel = static_cast<std::int64_t>(i) % c;
      y[i] = y[i] * param(op.weight, channel) + param(op.bias, channel);
    }
  }

  void batch_norm(const Op& op, const Values& x, Values& y) const {
    const TensorShape& s = shape(op.in[0]);
    y = x;
    for (std::int64_t c = 0; c < s.row(); ++c)
      normalise(y.data() + c, s.rows(), s.row(), static_cast<double>(op.eps));
    scale_and_shift(op, y);
    const double slope = op.activation == gpu::Activation::kRelu ? 0.0
                         : op.activation == gpu::Activation::kLeakyRelu
                             ? static_cast<double>(gpu::kLeakySlope)
                             : 1.0;
    for (double& v : y) v = v > 0.0 ? v : v * slope;
  }

  void layer_norm(const Op& op, const Values& x, Values& y) const {
    const TensorShape& s = shape(op.in[0]);
    y = x;
    for (std::int64_t r = 0; r < s.rows(); ++r)
      normalise(y.data() + r * s.row(), s.row(), 1, static_cast<double>(op.eps));
    scale_and_shift(op, y);
  }

  std::uint32_t random_word(std::uint32_t random_op, std::uint64_t e) const {
    const auto block = static_cast<std::uint32_t>((e >> 7) * 32 + (e & 31));
    return philox4x32_10({block, random_op, key_.step, key_.rank},
                         philox_key(key_.seed))[(e >> 5) & 3];
  }

  double dropped(const gpu::Dropout& d, std::int64_t decision, double v) const {
    const std::uint32_t word = random_word(d.op, static_cast<std::uint64_t>(decision));
    return word < d.threshold ? v * static_cast<double>(d.factor) : 0.0;
  }

  void uniform(const Op& op, Values& y) const {
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<double>(uniform_float(random_word(op.random_op, i)));
  }

  void stage(const Op& op, const ChainStep& step, Values& y) const {
    const Values& operand = value(op.in[static_cast<std::size_t>(step.operand)]);
    const auto factor = static_cast<double>(step.factor);
    for (std::size_t i = 0; i < y.size(); ++i) {
      double& v = y[i];
      const std::int64_t e = static_cast<std::int64_t>(i);
      switch (step.kind) {
        case ChainKind::kScale:
          v *= factor;
          break;
        case ChainKind::kAdd:
          v += operand[i];
          break;
        case ChainKind::kMul:
          v *= operand[i];
          break;
        case ChainKind::kAddRow:
          v += operand[e % step.columns];
          break;
        case ChainKind::kRelu:
          v = std::max(v, 0.0);
          break;
        case ChainKind::kLeakyRelu:
          v = v > 0.0 ? v : v * factor;
          break;
        case ChainKind::kGelu:
          v *= 0.5 * (1.0 + std::erf(v / std::sqrt(2.0)));
          break;
        case ChainKind::kTanh:
          v = std::tanh(v);
          break;
        case ChainKind::kSigmoid:
          v = sigmoid(v);
          break;
        case ChainKind::kDropout:
          v = dropped(step.dropout, e / step.columns, v);
          break;
        default:
          ES_CHECK_MSG(false, op.name);
      }
    }
  }

  void attention(const Op& op, Values& y) const {
    const gpu::AttentionShape& s = op.attention;
    const bool packed = op.attention_in.packed;
    const std::int64_t heads = s.heads * s.shared,
                       keys = s.key_tokens == 0 ? s.tokens : s.key_tokens;
    const std::int64_t width = heads * s.head_dim;
    const auto row = [&](int which, std::int64_t b, std::int64_t t, std::int64_t head) {
      const Values& x = value(op.in[packed ? 0 : static_cast<std::size_t>(which)]);
      if (s.by_head) {
        const std::int64_t of_k = (b * s.heads + head / s.shared) * keys;
        return x.data() + ((which == 0 ? (b * heads + head) * s.tokens : of_k) + t) * s.head_dim;
      }
      return x.data() + (b * s.tokens + t) * (packed ? 3 : 1) * width +
             (packed ? which * width : 0) + head * s.head_dim;
    };
    Values p(static_cast<std::size_t>(keys));
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t i = 0; i < s.tokens; ++i) {
          for (std::int64_t j = 0; j < keys; ++j) p[j] = score(op, b, head, i, j, row);
          softmax(p.data(), keys);
          const std::int64_t first = ((b * heads + head) * s.tokens + i) * keys;
          const std::int64_t to = s.by_head ? ((b * heads + head) * s.tokens + i) * s.head_dim
                                            : (b * s.tokens + i) * width + head * s.head_dim;
          for (std::int64_t j = 0; j < keys; ++j) {
            const double kept =
                s.dropout.threshold == 0 ? p[j] : dropped(s.dropout, first + j, p[j]);
            for (std::int64_t c = 0; c < s.head_dim; ++c) y[to + c] += kept * row(2, b, j, head)[c];
          }
        }
  }

  void recurrent(const Op& op, const Values& x, Values& states) {
    const bool lstm = op.recurrence.cell == gpu::RecurrentCell::kLstm;
    const std::int64_t times = shape(op.in[0])[0], rows = shape(op.in[0])[1];
    const std::int64_t units = shape(op.in[1])[1], width = op.recurrence.gates() * units;
    const auto weight = [&](std::int64_t i) {
      return op.tensors.weight < 0 ? param(op.weight, i) : value(op.in[op.tensors.weight])[i];
    };
    const auto bias = [&](std::int64_t i) {
      if (op.bias == gpu::kNoParam && op.tensors.bias < 0) return 0.0;
      return op.tensors.bias < 0 ? param(op.bias, i) : value(op.in[op.tensors.bias])[i];
    };
    const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
    Values h = value(op.in[1]), c = lstm ? value(op.in[2]) : h;
    for (std::int64_t step = 0; step < times; ++step) {
      const std::int64_t time = op.recurrence.reverse ? times - 1 - step : step;
      const Values before = h;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t unit = 0; unit < units; ++unit) {
          double from_x[4], from_h[4];
          for (std::int64_t g = 0; g < width / units; ++g) {
            const std::int64_t o = g * units + unit;
            from_x[g] = x[(time * rows + row) * width + o];
            from_h[g] = bias(o);
            for (std::int64_t k = 0; k < units; ++k)
              from_h[g] += before[row * units + k] * weight(o * units + k);
          }
          const auto gate = [&](int g) { return from_x[g] + from_h[g]; };
          double &state = h[row * units + unit], &cell = c[row * units + unit];
          if (lstm) {
            cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * std::tanh(gate(2));
            state = sigmoid(gate(3)) * std::tanh(cell);
          } else {
            const double n = std::tanh(from_x[2] + sigmoid(gate(0)) * from_h[2]);
            state = n + sigmoid(gate(1)) * (state - n);
          }
        }
      std::copy(h.begin(), h.end(), states.begin() + time * rows * units);
    }
    if (lstm) std::copy(c.begin(), c.end(), states.begin() + times * rows * units);
  }

  template <class Row>
  double score(const Op& op, std::int64_t b, std::int64_t head, std::int64_t i, std::int64_t j,
               const Row& row) const {
    const gpu::AttentionShape& s = op.attention;
    const gpu::AttentionInputs& in = op.attention_in;
    const bool beyond = in.length >= 0 && static_cast<double>(j) >= value(op.in[in.length])[b];
    if (beyond || (s.causal && j > i)) return -std::numeric_limits<double>::infinity();
    double sum = 0.0;
    for (std::int64_t c = 0; c < s.head_dim; ++c)
      sum += row(0, b, i, head)[c] * row(1, b, j, head)[c];
    sum *= static_cast<double>(s.scale);
    const std::int64_t keys = s.key_tokens == 0 ? s.tokens : s.key_tokens;
    if (in.first >= 0 && static_cast<double>(j) < value(op.in[in.first])[b * s.tokens + i])
      return -std::numeric_limits<double>::infinity();
    if (in.bias >= 0) sum += value(op.in[in.bias])[(head * s.tokens + i) * keys + j];
    if (in.mask >= 0) {
      const std::int64_t of_head = b % s.masks * s.mask_heads + head % s.mask_heads;
      sum += value(op.in[in.mask])[(of_head * s.mask_rows + i % s.mask_rows) * keys + j];
    }
    return sum;
  }

  // A graph that is not compiled has one function in each program. Shapes are aligned at the end.
  void program(const Op& op, Values& y) const {
    const TensorShape& to = shape(op.out[0]);
    for (std::int64_t i = 0; i < to.count(); ++i) {
      Values x;
      for (const TensorId t : op.in) {
        const TensorShape& from = shape(t);
        std::int64_t rest = i, at = 0, stride = 1;
        for (int axis = to.rank() - 1; axis >= 0; rest /= to[axis--]) {
          const int mine = axis - (to.rank() - from.rank());
          if (mine < 0) continue;
          at += from[mine] == 1 ? 0 : rest % to[axis] * stride;
          stride *= from[mine];
        }
        x.push_back(value(t)[static_cast<std::size_t>(at)]);
      }
      y[static_cast<std::size_t>(i)] = function_fp64(op.function, op.parameters, x);
    }
  }

  void reduce(const Op& op, const Values& x, Values& y) const {
    const gpu::AlongAxis& a = op.along;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      Values middle;
      for (std::int64_t k = 0; k < a.count; ++k)
        middle.push_back(x[(at / a.inner * a.count + k) * a.inner + at % a.inner]);
      const double result = reduction_fp64(a.kind, middle);
      const auto found = std::find(middle.begin(), middle.end(), result) - middle.begin();
      y[i] = op.kind == OpKind::kReduce ? result : static_cast<double>(found);
    }
  }

  void running_sum(const Op& op, const Values& x, Values& y) const {
    const auto inner = static_cast<std::size_t>(op.along.inner);
    const auto count = static_cast<std::size_t>(op.along.count);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = i / inner % count == 0 ? x[i] : y[i - inner] + x[i];
  }

  // One word at a time, by the definition of a BlockCopy.
  void move(const Op& op) {
    for (const gpu::BlockCopy& copy : op.move)
      for (std::int64_t i = 0; i < copy.count(); ++i) {
        std::int64_t rest = i, from = copy.source_offset, to = copy.target_offset;
        for (std::size_t d = gpu::kMoveRank; d-- > 0; rest /= copy.size[d]) {
          from += rest % copy.size[d] * copy.source_stride[d];
          to += rest % copy.size[d] * copy.target_stride[d];
        }
        value(op.out[copy.target])[to] = value(op.in[copy.source])[from];
      }
  }

  void pool(const Op& op, const Values& x, Values& y) const {
    const ImageShape in = image(op.in[0]), out = image(op.out[0]);
    for_pixels(out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t c) {
      double sum = 0.0, best = -std::numeric_limits<double>::infinity();
      int cells = 0;
      const auto visit = [&](std::int64_t h, std::int64_t w, std::int64_t) {
        const double v = x[at(in, n, h, w, c)];
        sum += v;
        best = std::max(best, v);
        ++cells;
      };
      if (op.kind == OpKind::kMaxPool || op.kind == OpKind::kAvgPool) {
        for_window(op.pool, oh, ow, visit);
      } else {  // Adaptive pooling. The global pool is its case 1x1.
        for (std::int64_t h = oh * in.h / out.h; h < ((oh + 1) * in.h + out.h - 1) / out.h; ++h)
          for (std::int64_t w = ow * in.w / out.w; w < ((ow + 1) * in.w + out.w - 1) / out.w; ++w)
            visit(h, w, 0);
      }
      y[at(out, n, oh, ow, c)] = op.kind == OpKind::kMaxPool ? best : sum / cells;
    });
  }

  double loss_of(const Op& op) const {
    const Values& x = value(op.in[0]);
    const Values& target = value(op.in[1]);
    const TensorShape& s = shape(op.in[0]);
    double total = 0.0;
    if (op.kind == OpKind::kCrossEntropy) {
      int rows = 0;
      for (std::int64_t r = 0; r < s.rows(); ++r) {
        if (target[r] < 0.0) continue;
        Values p(x.begin() + r * s.row(), x.begin() + (r + 1) * s.row());
        double mean = 0.0;
        for (const double logit : p) mean += logit / static_cast<double>(p.size());
        const double logit = p[static_cast<std::size_t>(target[r])];
        softmax(p.data(), s.row());
        const double first = -std::log(p[static_cast<std::size_t>(target[r])]), lse = first + logit;
        total += first + op.terms.smoothing * (logit - mean) + op.terms.z * lse * lse;
        ++rows;
      }
      return total / rows;
    }
    ES_CHECK(op.kind == OpKind::kBce || op.kind == OpKind::kMse);
    for (std::size_t i = 0; i < x.size(); ++i)
      total += op.kind == OpKind::kMse ? (x[i] - target[i]) * (x[i] - target[i])
                                       : -target[i] * std::log(sigmoid(x[i])) -
                                             (1.0 - target[i]) * std::log(1.0 - sigmoid(x[i]));
    return total / static_cast<double>(x.size());
  }

  const gpu::Graph& graph_;
  const Values& params_;
  gpu::DropoutKey key_;
  std::vector<Values> values_;  // By tensor.
};

}  // namespace

double reference_loss(const gpu::Graph& graph, const std::vector<double>& params,
                      const gpu::Batch& batch, const gpu::DropoutKey& key) {
  return Reference(graph, params, key).loss(batch);
}

}  // namespace es::test
