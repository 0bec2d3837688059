// Rule G5: a NaN in an input of an operator gives a NaN in its outputs, forwards and backwards, in
// the same elements in every kernel class. The same holds for infinities.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/phases.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

using Values = std::vector<float>;
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// One operator: the arrays that it reads, and their effect on its outputs.
struct Operator {
  std::string name;
  std::vector<Values> inputs;
  std::function<std::vector<Floats>(const KernelTable&, const std::vector<Values>&)> run;
  // Inputs from this one on meet the padding of a convolution. Whether an implementation multiplies
  // them with its +0 is not defined, so it is not defined which elements are NaN if these inputs
  // are not finite.
  std::size_t meets_padding_from = SIZE_MAX;
  // Whether element `i` of an input has any effect.
  std::function<bool(std::size_t input, std::int64_t i)> takes_part =
      [](std::size_t, std::int64_t) { return true; };
};

class Operators {
 public:
  explicit Operators(Random& random) : random_(random) {
    add_element_wise();
    add_norms();
    add_pools();
    add_rows();
    add_attention();
    add_recurrent();
    add_losses();
    add_products();
    add_updates();
  }
  const std::vector<Operator>& all() const { return all_; }

 private:
  static constexpr std::int64_t kCount = 45, kRows = 70, kCols = 19;

  Values numbers(std::int64_t n) {
    Values values(static_cast<std::size_t>(n));
    for (float& v : values) v = random_.normal();
    return values;
  }
  template <class Run>
  Operator& add(const std::string& name, std::vector<Values> inputs, Run run) {
    all_.push_back({name, std::move(inputs), run});
    return all_.back();
  }

  void add_chain(const std::string& name, const ChainStage& stage) {
    add(name, {numbers(kCount), numbers(kCount)},
        [stage](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          ChainStage used = stage;
          used.operand = in[1].data();
          t.chain(0, kCount, in[0].data(), &used, 1, {.seed = 7}, out.emplace_back(kCount));
          return out;
        })
        .takes_part = [kind = stage.kind, columns = stage.columns](std::size_t input,
                                                                   std::int64_t i) {
      const bool reads = kind == ChainKind::kAdd || kind == ChainKind::kMul ||
                         kind == ChainKind::kAddRow ||
                         (kind >= ChainKind::kReluGrad && kind <= ChainKind::kSigmoidGrad);
      return input == 0 || (reads && (kind != ChainKind::kAddRow || i < columns));
    };
  }

  void add_element_wise() {
    const auto two = [&](const std::string& name, auto member) {
      add(name, {numbers(kCount), numbers(kCount)},
          [member](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            (t.*member)(kCount, in[0].data(), in[1].data(), out.emplace_back(kCount));
            return out;
          });
    };
    two("relu_bwd", &KernelTable::relu_bwd);
    two("add", &KernelTable::add);
    two("add_relu", &KernelTable::add_relu);
    two("bce_bwd", &KernelTable::bce_bwd);
    two("mse_bwd", &KernelTable::mse_bwd);
    add("relu_fwd", {numbers(kCount)}, [](const KernelTable& t, const std::vector<Values>& in) {
      std::vector<Floats> out;
      t.relu_fwd(kCount, in[0].data(), out.emplace_back(kCount));
      return out;
    });
    for (int kind = 0; kind <= static_cast<int>(ChainKind::kRoundBf16); ++kind) {
      ChainStage stage{.kind = static_cast<ChainKind>(kind), .factor = 0.25f, .columns = 9};
      if (stage.kind == ChainKind::kDropout) {
        stage.dropout = {.threshold = 1u << 31, .op = 3, .factor = 2.0f};
        add_chain("drop path", stage);
        stage.columns = 1;
      }
      add_chain("chain " + std::to_string(kind), stage);
    }
  }

  void add_norms() {
    for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
      const std::string name = " with activation " + std::to_string(static_cast<int>(act));
      const Values variances(kCols, 0.5f);
      add("batch norm" + name, {numbers(kRows * kCols), numbers(kCols), numbers(kCols)},
          [act](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            const Values running(kCols, 1.0f);
            BnForward bn{.rows = kRows, .c = kCols, .x = in[0].data(), .gamma = in[1].data()};
            bn.beta = in[2].data();
            bn.running_mean = bn.running_var = running.data();
            bn.act = act;
            for (const std::int64_t n : {kRows * kCols, kCols, kCols, kCols, kCols})
              out.emplace_back(n);
            bn.y = out[0];
            bn.mean = out[1];
            bn.istd = out[2];
            bn.next_mean = out[3];
            bn.next_var = out[4];
            const Floats ws = workspace(t.bn_workspace_floats(kRows, kCols));
            bn.ws = ws;
            bn_train_fwd(t, bn, Alone());
            return out;
          });
      add("batch norm, evaluation," + name,
          {numbers(kRows * kCols), numbers(kCols), numbers(kCols), numbers(kCols), variances},
          [act](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            bn_eval(t, kRows, kCols, in[0].data(), in[1].data(), in[2].data(), 1e-5f, in[3].data(),
                    in[4].data(), act, out.emplace_back(kRows * kCols), workspace(kCols), Alone());
            return out;
          });
      add("batch norm, backward," + name,
          {numbers(kRows * kCols), numbers(kRows * kCols), numbers(kCols), variances,
           numbers(kCols), numbers(kCols)},
          [act](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {kRows * kCols, kCols, kCols}) out.emplace_back(n);
            const Floats ws = workspace(t.bn_workspace_floats(kRows, kCols));
            bn_bwd(t,
                   {.rows = kRows,
                    .c = kCols,
                    .x = in[0].data(),
                    .dy = in[1].data(),
                    .mean = in[2].data(),
                    .istd = in[3].data(),
                    .gamma = in[4].data(),
                    .beta = in[5].data(),
                    .act = act,
                    .dx = out[0],
                    .dgamma = out[1],
                    .dbeta = out[2],
                    .ws = ws},
                   Alone());
            return out;
          })
          .takes_part = [act](std::size_t input, std::int64_t) {
        return input != 5 || act != Activation::kNone;  // beta decides only for the activation.
      };
    }
    add("layer norm", {numbers(kRows * kCols), numbers(kCols), numbers(kCols)},
        [](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          for (const std::int64_t n : {kRows * kCols, kRows, kRows}) out.emplace_back(n);
          t.layer_norm_fwd(kRows, kCols, in[0].data(), in[1].data(), in[2].data(), 1e-5f, out[0],
                           out[1], out[2]);
          return out;
        });
    add("layer norm, backward",
        {numbers(kRows * kCols), numbers(kRows * kCols), numbers(kRows), Values(kRows, 2.0f),
         numbers(kCols)},
        [](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          for (const std::int64_t n : {kRows * kCols, kCols, kCols}) out.emplace_back(n);
          layer_norm_bwd(t, kRows, kCols, in[0].data(), in[1].data(), in[2].data(), in[3].data(),
                         in[4].data(), out[0], out[1], out[2],
                         workspace(t.layer_norm_bwd_workspace_floats(kRows, kCols)), Alone());
          return out;
        });
    add("column sums", {numbers(kRows * kCols)},
        [](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          colsum(t, kRows, kCols, in[0].data(), out.emplace_back(kCols),
                 workspace(t.colsum_workspace_floats(kRows, kCols)), Alone());
          return out;
        });
  }

  // Windows that overlap, with padding. For max pooling, only the winner of a window gets a
  // gradient.
  void add_pools() {
    const PoolShape s{.n = 2, .h = 6, .w = 7, .c = 19, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
    const std::int64_t in_size = s.n * s.h * s.w * s.c, out_size = s.n * s.oh() * s.ow() * s.c;
    add("max pool", {numbers(in_size), numbers(out_size)},
        [=](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          GuardedBytes argmax(static_cast<std::size_t>(out_size));
          t.max_pool_fwd(s, in[0].data(), out.emplace_back(out_size), argmax.data());
          t.max_pool_bwd(s, in[1].data(), argmax.data(), out.emplace_back(in_size));
          out.emplace_back(out_size,
                           [p = argmax.data()]() mutable { return static_cast<float>(*p++); });
          return out;
        });
    add("average pool", {numbers(in_size), numbers(out_size)},
        [=](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.avg_pool_fwd(s, in[0].data(), out.emplace_back(out_size));
          t.avg_pool_bwd(s, in[1].data(), out.emplace_back(in_size));
          return out;
        });
    const AdaptivePoolShape a{.n = 2, .h = 6, .w = 7, .c = 19, .oh = 4, .ow = 9};
    const std::int64_t adaptive_size = a.n * a.oh * a.ow * a.c;
    add("adaptive average pool", {numbers(in_size), numbers(adaptive_size)},
        [=](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.adaptive_avg_pool_fwd(a, in[0].data(), out.emplace_back(adaptive_size));
          t.adaptive_avg_pool_bwd(a, in[1].data(), out.emplace_back(in_size));
          return out;
        });
    add("global average pool", {numbers(in_size), numbers(2 * 19)},
        [=](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.global_avg_pool_fwd(2, 42, 19, in[0].data(), out.emplace_back(2 * 19),
                                workspace(t.global_avg_pool_workspace_floats(42, 19)));
          t.global_avg_pool_bwd(2, 42, 19, in[1].data(), out.emplace_back(in_size));
          return out;
        });
    add("upsampling, backward", {numbers(4 * in_size)},
        [=](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.upsample2_bwd(s.n, s.h, s.w, s.c, in[0].data(), out.emplace_back(in_size));
          return out;
        });
  }

  void add_rows() {
    for (const std::int64_t c : {19, 100}) {
      add("softmax of " + std::to_string(c), {numbers(3 * c)},
          [c](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            t.softmax_fwd(3, c, in[0].data(), out.emplace_back(3 * c));
            return out;
          });
      add("softmax, backward, of " + std::to_string(c), {numbers(3 * c), numbers(3 * c)},
          [c](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            t.softmax_bwd(3, c, in[0].data(), in[1].data(), out.emplace_back(3 * c));
            return out;
          });
    }
    const std::vector<std::int32_t> ids{0, 3, 1, 3, 3};
    add("embedding", {numbers(4 * 19), numbers(5 * 19)},
        [ids](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.embedding_fwd(5, 19, in[0].data(), ids.data(), out.emplace_back(5 * 19));
          embedding_bwd(t, 5, 19, 4, ids.data(), in[1].data(), nullptr, out.emplace_back(4 * 19),
                        workspace(t.embedding_bwd_workspace_floats(5, 4)), Alone());
          return out;
        })
        .takes_part = [](std::size_t input, std::int64_t i) { return input == 1 || i / 19 != 2; };
  }

  // A NaN in the input of a step reaches the state, and one in a gradient that of the input.
  void add_recurrent() {
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru}) {
      const bool lstm = cell == RecurrentCell::kLstm;
      const std::int64_t one = 2 * 19, all = (lstm ? 4 : 3) * one;
      add(lstm ? "lstm" : "gru", {numbers(all), numbers(all), numbers(one)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {all, one, one}) out.emplace_back(n);
            t.recurrent_fwd({.cell = cell,
                             .rows = 2,
                             .units = 19,
                             .x = in[0].data(),
                             .product = in[1].data(),
                             .before = in[2].data(),
                             .gates = out[0],
                             .kept = out[1],
                             .y = out[2]});
            return out;
          });
      add(lstm ? "lstm, backward" : "gru, backward",
          {numbers(all), numbers(one), numbers(one), numbers(one), numbers(one), numbers(one)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {all, one}) out.emplace_back(n);
            if (!lstm) out.emplace_back(all);
            std::copy(in[5].begin(), in[5].end(), out[1].data());
            t.recurrent_bwd({.cell = cell,
                             .rows = 2,
                             .units = 19,
                             .gates = in[0].data(),
                             .before = in[1].data(),
                             .kept = in[2].data(),
                             .dy = in[3].data(),
                             .product = in[4].data(),
                             .carry = out[1],
                             .dx = out[0],
                             .dproduct = lstm ? nullptr : out[2].data()});
            return out;
          });
    }
  }

  // Keys from the length on have no effect, except the values, which are multiplied by +0.
  void add_attention() {
    for (const std::int64_t tokens : {9, 70}) {
      const AttentionShape s{.batch = 2,
                             .tokens = tokens,
                             .heads = 2,
                             .head_dim = 5,
                             .qkv_stride = 10,
                             .y_stride = 10,
                             .scale = 0.5f,
                             .dropout = {.threshold = 1u << 31, .op = 3, .factor = 2.0f}};
      const std::vector<std::int32_t> length{4, 9};
      const std::int64_t size = 2 * tokens * 10;
      const auto beyond = [=](std::int64_t i) {
        return i / 10 % tokens >= length[static_cast<std::size_t>(i / 10 / tokens)];
      };
      add("attention over " + std::to_string(tokens),
          {numbers(size), numbers(size), numbers(size), numbers(2 * tokens * tokens)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {size, 4 * tokens * kRowStats}) out.emplace_back(n);
            t.attention_fwd(s, in[0].data(), in[1].data(), in[2].data(),
                            {.bias = in[3].data(), .length = length.data()}, {.seed = 3}, out[0],
                            out[1], workspace(t.attention_workspace_floats(s)));
            return out;
          })
          .takes_part = [=](std::size_t input, std::int64_t i) {
        return input == 3 ? i % tokens < 4 : input != 1 || !beyond(i);
      };
      // Shift and scale of each row, for scores that are small.
      Values stats = numbers(4 * tokens * kRowStats);
      for (float& v : stats) v = v * v / static_cast<float>(tokens);
      AttentionShape with_bias = s;
      with_bias.bias_gradient = true;
      add("attention, backward, over " + std::to_string(tokens),
          {numbers(size), numbers(size), numbers(size), stats, numbers(size)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {size, size, size, 2 * tokens * tokens})
              out.emplace_back(n);
            t.attention_bwd(with_bias, in[0].data(), in[1].data(), in[2].data(), {}, in[3].data(),
                            in[4].data(), {.seed = 3}, out[0], out[1], out[2], out[3],
                            workspace(t.attention_workspace_floats(with_bias)));
            return out;
          });
    }
  }

  void add_losses() {
    const std::vector<std::int32_t> labels{5, -1, 0};  // Row 1 is left out.
    add("cross entropy", {numbers(3 * 19)},
        [labels](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          for (const std::int64_t n : {3 * 19, 3, 1}) out.emplace_back(n);
          t.softmax_xent_fwd(3, 19, in[0].data(), labels.data(), {}, out[0], out[1]);
          t.softmax_xent_mean(3, labels.data(), out[1], out[2]);
          return out;
        });
    add("cross entropy, backward", {numbers(3 * 19)},
        [labels](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.softmax_xent_bwd(3, 19, in[0].data(), labels.data(), {3, labels.data()}, {},
                             out.emplace_back(3 * 19));
          return out;
        })
        .takes_part = [](std::size_t, std::int64_t i) { return i / 19 != 1; };
    const auto loss = [&](const std::string& name, auto member) {
      add(name, {numbers(45), numbers(45)},
          [member](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (const std::int64_t n : {45, 1}) out.emplace_back(n);
            (t.*member)(45, in[0].data(), in[1].data(), out[0], out[1]);
            return out;
          });
    };
    loss("binary cross entropy", &KernelTable::bce_fwd);
    loss("squared error", &KernelTable::mse_fwd);
    add_yolo();
  }

  // Two classes. No operator reads channels 5 and 6 of a position without a box.
  void add_yolo() {
    YoloShape s{.batch = 2, .classes = 2, .boxes = 2, .image_h = 64, .image_w = 64};
    std::vector<Values> outputs;
    for (int scale = 0; scale < 3; ++scale) {
      s.h[scale] = s.w[scale] = 1 << scale;
      for (int a = 0; a < 3; ++a)
        s.anchor_w[scale][a] = s.anchor_h[scale][a] = static_cast<float>((48 >> scale) + 5 * a);
      outputs.push_back(numbers(2 * s.h[scale] * s.w[scale] * 3 * 7));
    }
    add("yolo loss", outputs, [s](const KernelTable& t, const std::vector<Values>& in) {
      constexpr float kBoxes[] = {1, 0.5f, 0.5f, 0.6f, 0.7f, 0,  0.2f, 0.3f, 0.1f, 0.2f,
                                  0, 0.7f, 0.1f, 0.3f, 0.3f, -1, 0,    0,    0,    0};
      std::vector<Floats> out;
      for (const Values& v : in) out.emplace_back(static_cast<std::int64_t>(v.size()));
      for (const std::int64_t n : {2, 1}) out.emplace_back(n);
      const float* const raw[3] = {in[0].data(), in[1].data(), in[2].data()};
      float* const gradients[3] = {out[0], out[1], out[2]};
      t.yolo_loss(s, raw, kBoxes, gradients, out[3], out[4],
                  workspace(t.yolo_loss_workspace_floats(s)));
      return out;
    }).takes_part = [](std::size_t, std::int64_t i) { return i % 7 < 5; };
  }

  void add_products() {
    const GemmShape g{.m = 5, .n = 19, .k = 21, .a_row = 21, .b_row = 19, .c_row = 19};
    add("product", {numbers(5 * 21), numbers(21 * 19), numbers(19)},
        [g](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          t.gemm(g, in[0].data(), in[1].data(), in[2].data(), out.emplace_back(5 * 19),
                 workspace(t.gemm_workspace_floats(g)));
          return out;
        });
    const auto conv = [&](const std::string& name, const ConvShape& s) {
      const std::int64_t x = s.n * s.h * s.w * s.c, y = s.n * s.oh() * s.ow() * s.oc;
      const std::int64_t w = s.oc * s.kh * s.kw * s.c / s.groups;
      add(name, {numbers(x), numbers(w), numbers(s.oc)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            t.conv_fwd(s, 0, s.oc, in[0].data(), in[1].data(), in[2].data(), out.emplace_back(y),
                       workspace(t.conv_fwd_workspace_floats(s)));
            return out;
          })
          .meets_padding_from = s.pad > 0 ? 1 : SIZE_MAX;
      add(name + ", gradients", {numbers(x), numbers(w), numbers(y)},
          [=](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            t.conv_dgrad(s, 0, s.c, in[2].data(), in[1].data(), out.emplace_back(x),
                         workspace(t.conv_dgrad_workspace_floats(s)));
            t.conv_wgrad(s, 0, s.oc, in[0].data(), in[2].data(), out.emplace_back(w),
                         workspace(t.conv_wgrad_workspace_floats(s)));
            return out;
          })
          .meets_padding_from = 1;
    };
    conv("convolution 1x1", {.n = 2, .h = 5, .w = 6, .c = 7, .oc = 19});
    conv("convolution 3x3", {.n = 2, .h = 5, .w = 6, .c = 7, .oc = 19, .kh = 3, .kw = 3});
    conv("convolution 3x3 with padding",
         {.n = 2, .h = 5, .w = 6, .c = 7, .oc = 19, .kh = 3, .kw = 3, .stride = 2, .pad = 1});
    conv("depthwise convolution with padding",
         {.n = 2, .h = 5, .w = 6, .c = 19, .oc = 19, .kh = 3, .kw = 3, .pad = 1, .groups = 19});
    conv("grouped convolution",
         {.n = 2, .h = 5, .w = 6, .c = 8, .oc = 6, .kh = 3, .kw = 3, .groups = 2});
    conv("depthwise convolution",
         {.n = 2, .h = 5, .w = 6, .c = 19, .oc = 19, .kh = 3, .kw = 3, .groups = 19});
  }

  void add_updates() {
    Values squares = numbers(kCount);
    for (float& v : squares) v = v * v;
    add("adam", {numbers(kCount), numbers(kCount), numbers(kCount), squares},
        [](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          for (std::size_t i = 1; i < 4; ++i)
            out.emplace_back(kCount, [p = in[i].data()]() mutable { return *p++; });
          t.adam(kCount, in[0].data(), 0.5f, {.lr_over_bc1 = 0.1f, .rsqrt_bc2 = 2.0f}, out[0],
                 out[1], out[2]);
          return out;
        });
    for (const bool nesterov : {false, true})
      add("sgd", {numbers(kCount), numbers(kCount), numbers(kCount)},
          [nesterov](const KernelTable& t, const std::vector<Values>& in) {
            std::vector<Floats> out;
            for (std::size_t i = 1; i < 3; ++i)
              out.emplace_back(kCount, [p = in[i].data()]() mutable { return *p++; });
            t.sgd(kCount, in[0].data(), 0.5f, 0.1f, 0.9f, 0.01f, nesterov, out[0], out[1]);
            return out;
          });
    add("norm and check", {numbers(kCount)},
        [](const KernelTable& t, const std::vector<Values>& in) {
          std::vector<Floats> out;
          out.emplace_back(1)[0] = t.sum_of_squares(kCount, in[0].data());
          out.emplace_back(1)[0] = t.any_non_finite(kCount, in[0].data()) ? 1.0f : 0.0f;
          return out;
        });
  }

  Random& random_;
  std::vector<Operator> all_;
};

// The first element that is NaN in one of the two only, or has other bits; -1 if there is none.
std::int64_t first_difference(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (!(std::isnan(a[i]) && std::isnan(b[i])) && std::memcmp(a + i, b + i, sizeof(float)) != 0)
      return i;
  return -1;
}

bool any_nan(const std::vector<Floats>& out) {
  for (const Floats& f : out)
    for (std::int64_t i = 0; i < f.size(); ++i)
      if (std::isnan(f[i])) return true;
  return false;
}

void check_planted(const Operator& op, std::size_t input, std::int64_t at, float bad) {
  CAPTURE(op.name);
  CAPTURE(input);
  CAPTURE(at);
  CAPTURE(bad);
  std::vector<Values> inputs = op.inputs;
  inputs[input][static_cast<std::size_t>(at)] = bad;
  const std::vector<Floats> expected = op.run(reference(), inputs);
  const bool comes_out = std::isnan(bad) && op.takes_part(input, at);
  if (comes_out) CHECK_MESSAGE(any_nan(expected), "NaN is lost");
  for (const KernelTable* table : vector_classes()) {
    CAPTURE(device_type(table->cpu_class).name);
    const std::vector<Floats> actual = op.run(*table, inputs);
    if (comes_out) CHECK_MESSAGE(any_nan(actual), "NaN is lost");
    if (input >= op.meets_padding_from) continue;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(first_difference(actual[i], expected[i]) == -1);
    }
  }
}

TEST_SUITE("gpu/canonical/nan") {
  TEST_CASE("every operator passes a NaN on, and every class has it in the same elements") {
    Random random(test::seed("nan"));
    const Operators operators(random);
    for (const Operator& op : operators.all()) {
      REQUIRE_FALSE(any_nan(op.run(reference(), op.inputs)));
      for (std::size_t input = 0; input < op.inputs.size(); ++input) {
        const auto size = static_cast<std::int64_t>(op.inputs[input].size());
        for (int trial = 0; trial < 25; ++trial) {
          const std::int64_t at = size <= 25 ? trial % size : random.integer(0, size - 1);
          for (const float bad : {kNotANumber, -kNotANumber, INFINITY, -INFINITY})
            check_planted(op, input, at, bad);
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
