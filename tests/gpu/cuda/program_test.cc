// Element-wise programs, reductions and running sums.
#include "tests/gpu/canonical/random_program.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

constexpr Fold kFolds[] = {Fold::kProduct, Fold::kMaximum, Fold::kMinimum};

struct Size {
  std::int64_t matrices, rows, n;
};
constexpr Size kSizes[] = {{1, 1, 1},    {3, 2, 5},   {2, 3, 64},    {1, 65, 65},  {4, 70, 33},
                           {1, 2, 1000}, {2, 130, 7}, {1, 1, 33000}, {1, 4161, 3}, {7, 65, 1}};

TEST_SUITE("gpu/cuda/program") {
  TEST_CASE("programs have the bits of the scalar class") {
    Random random(test::seed("device programs"));
    for (int trial = 0; trial < 400; ++trial) {
      const RandomProgram p = random_program(random, random.coin() ? 60 : 4000);
      const std::vector<std::int64_t> sizes(static_cast<std::size_t>(p.code.outputs), p.count);
      auto out = outputs(sizes), on_device = outputs(sizes);
      std::vector<float*> here, there;
      for (const Floats& y : out) here.push_back(y);
      for (const Floats& y : on_device) there.push_back(y);
      reference().program(p.code, nullptr, p.space, p.in().data(), here.data(), 0, p.count);
      device().program(kStream, p.code, p.space, {}, p.in().data(), there.data(), p.count);
      check_same("program " + std::to_string(trial), out, on_device);
    }
  }

  TEST_CASE("every instruction has the bits of the scalar class for all kinds of floats") {
    Random random(test::seed("device instructions"));
    constexpr std::int64_t kCount = 20'000;
    for (std::size_t i = 0; i < kElementOps; ++i) {
      ElementCode code{.inputs = 4, .instructions = 1, .outputs = 1};
      code.instruction[0] = {static_cast<ElementOp>(i),
                             0,
                             kFirstInput,
                             kFirstInput + 1,
                             kFirstInput + 2,
                             kFirstInput + 3};
      ElementSpace space{.rank = 1, .size = {kCount}};
      for (auto& stride : space.stride) stride[0] = 1;
      std::vector<Floats> x;
      for (int k = 0; k < 4; ++k) x.emplace_back(kCount, [&] { return any_float(random); });
      const float* in[] = {x[0], x[1], x[2], x[3]};
      auto out = outputs({kCount}), on_device = outputs({kCount});
      float *here[] = {out[0]}, *there[] = {on_device[0]};
      reference().program(code, nullptr, space, in, here, 0, kCount);
      device().program(kStream, code, space, {}, in, there, kCount);
      check_same("instruction " + std::to_string(i), out, on_device);
    }
  }

  TEST_CASE("a program reads and writes bf16 numbers") {
    Random random(test::seed("device bf16 programs"));
    for (int trial = 0; trial < 100; ++trial) {
      const RandomProgram p = random_program(random, random.coin() ? 60 : 4000);
      // Every other input and output is bf16. Inputs that are repeated are too.
      const std::vector<const float*> in = p.in();
      std::vector<Numbers<Bf16>> half;
      std::vector<Floats> rounded;
      std::vector<const float*> here_in, there_in;
      cuda::Bf16Arrays bf16;
      for (std::size_t k = 0; k < in.size(); ++k) {
        here_in.push_back(in[k]);
        there_in.push_back(in[k]);
        if (k % 2 == 1) continue;
        const Floats& x = p.inputs[k];
        half.emplace_back(static_cast<std::size_t>(x.size()));
        reference().narrow(x.size(), x, half.back().data());
        rounded.emplace_back(x.size());
        reference().widen(x.size(), half.back().data(), rounded.back());
        here_in.back() = rounded.back();
        there_in.back() = reinterpret_cast<const float*>(half.back().data());
        bf16.in |= 1U << k;
      }
      bf16.out = 1;
      const std::vector<std::int64_t> sizes(static_cast<std::size_t>(p.code.outputs), p.count);
      auto out = outputs(sizes), on_device = outputs(sizes);
      Numbers<Bf16> first(static_cast<std::size_t>(p.count)), expected(first.size());
      std::vector<float*> here, there;
      for (const Floats& y : out) here.push_back(y);
      for (const Floats& y : on_device) there.push_back(y);
      there[0] = reinterpret_cast<float*>(first.data());
      reference().program(p.code, nullptr, p.space, here_in.data(), here.data(), 0, p.count);
      device().program(kStream, p.code, p.space, bf16, there_in.data(), there.data(), p.count);
      finish();
      reference().narrow(p.count, out[0], expected.data());
      CHECK(first == expected);
      // The first output has been compared.
      std::copy_n(out[0].data(), p.count, on_device[0].data());
      check_same("program " + std::to_string(trial), out, on_device);
    }
  }

  TEST_CASE("reductions and running sums have the bits of the scalar class") {
    Random random(test::seed("device folds"));
    for (const Size& s : kSizes) {
      const std::int64_t rows = s.matrices * s.rows, count = rows * s.n;
      const Floats x = mixed(random, count);
      const KernelTable& t = reference();
      for (const Fold fold : kFolds) {
        auto out = outputs({rows, s.matrices * s.n, rows}),
             on_device = outputs({rows, s.matrices * s.n, rows});
        t.fold_rows(fold, rows, s.n, x, out[0]);
        for (std::int64_t m = 0; m < s.matrices; ++m)
          t.fold_columns(fold, s.rows, s.n, 0, s.n, x + m * s.rows * s.n, out[1] + m * s.n);
        device().fold_rows(kStream, fold, rows, s.n, x, on_device[0]);
        device().fold_columns(kStream, fold, s.matrices, s.rows, s.n, x, on_device[1]);
        t.best_indices(fold, rows, s.n, x, reinterpret_cast<std::int32_t*>(out[2].data()));
        device().best_indices(kStream, fold, rows, s.n, x,
                              reinterpret_cast<std::int32_t*>(on_device[2].data()));
        check_same(shaped("fold", rows, s.n), out, on_device);
      }
      const std::vector<std::int64_t> sizes = {rows, s.matrices * s.n, count, count};
      auto out = outputs(sizes), on_device = outputs(sizes);
      t.sum_rows(rows, s.n, x, out[0]);
      const Floats ws = workspace(t.colsum_workspace_floats(s.rows, s.n));
      for (std::int64_t m = 0; m < s.matrices; ++m)
        colsum(t, s.rows, s.n, x + m * s.rows * s.n, out[1] + m * s.n, ws, Alone());
      t.running_sums(s.matrices, s.rows, s.n, false, x, out[2]);
      t.running_sums(s.matrices, s.rows, s.n, true, x, out[3]);
      device().sum_rows(kStream, rows, s.n, x, on_device[0]);
      const Floats device_ws =
          workspace(device().sum_matrices_workspace_floats(s.matrices, s.rows, s.n));
      device().sum_matrices(kStream, s.matrices, s.rows, s.n, x, on_device[1], device_ws);
      device().running_sums(kStream, s.matrices, s.rows, s.n, false, x, on_device[2]);
      device().running_sums(kStream, s.matrices, s.rows, s.n, true, x, on_device[3]);
      check_same(shaped("sums", rows, s.n), out, on_device);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
