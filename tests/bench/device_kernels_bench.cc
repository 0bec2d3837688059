// device_kernels_bench: canonical products and convolutions of the CUDA device beside cuBLAS and
// cuDNN.
//
//   device_kernels_bench [--gpu INDEX | --host] [--quick]
//
// It prints one JSON line for each shape and pass on stdout: milliseconds, Tflop/s, and the ratio
// of the library's time to ours, which is null without a library. For kernels that mainly read and
// write memory it prints milliseconds, GB/s and the share of the peak of the device. There the
// bytes of operands and results count once, though some are read more often. Rounds alternate, and
// the numbers are medians. Exact products are timed on each route that the device has; if a route
// has other bits than the route without tensor cores, the program stops with an error. With --host
// the kernels run on host memory, and their times mean nothing. --quick takes small shapes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_inventory.h"
#include "gpu/cuda/vendor.h"

namespace es::bench {
namespace {

using namespace es::gpu;

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.02;

[[noreturn]] void stop(const std::string& message) {
  std::cerr << "device_kernels_bench: " << message << "\n";
  std::exit(1);
}
void require(const Status& status) {
  if (!status.ok()) stop(status.error().message);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The memory that all cases share, the stream and the library.
class Bench {
 public:
  // `peaks`: those of the device; 0 if they are not known.
  Bench(cuda::Device& device, cuda::DeviceVendorLibrary* library, std::size_t floats,
        const CudaDevice& peaks)
      : device_(device), library_(library), stream_(*device.make_stream()), peaks_(peaks) {
    for (float** buffer : {&a, &b, &c, &ws}) {
      const auto memory = device.allocate(floats * sizeof(float), "a benchmark");
      if (!memory) stop(memory.error().message);
      *buffer = static_cast<float*>(*memory);
      fill(*buffer, floats);
    }
  }

  using Run = std::function<void(cuda::Stream)>;
  void compare(const std::string& name, double flop, const Run& ours,
               std::unique_ptr<cuda::DeviceVendorKernel> theirs) {
    std::vector<double> our_s, their_s;
    const Run library = [&](cuda::Stream s) { require(theirs->run(s, a, b, c, ws)); };
    for (int i = 0; i < kRounds; ++i) {
      our_s.push_back(time(ours));
      if (theirs) their_s.push_back(time(library));
    }
    const double best = median(our_s);
    const double tflops = 1e-12 * flop / best;
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, \"tflops\": %.3f, ", name.c_str(), 1e3 * best,
                tflops);
    if (peaks_.peak_tflops > 0) std::printf("\"of_peak\": %.3f, ", tflops / peaks_.peak_tflops);
    if (theirs) {
      std::printf("\"library\": \"%s\", \"library_ms\": %.4f, \"ratio\": %.3f}\n",
                  theirs->algorithm().c_str(), 1e3 * median(their_s), median(their_s) / best);
    } else {
      std::printf("\"library\": null, \"library_ms\": null, \"ratio\": null}\n");
    }
    std::fflush(stdout);
  }

  // A kernel that reads and writes `bytes`.
  void measure(const std::string& name, double bytes, const Run& run) {
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) times.push_back(time(run));
    const double gb_per_s = 1e-9 * bytes / median(times);
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, ", name.c_str(), 1e3 * median(times));
    if (peaks_.peak_gb_per_s > 0)
      std::printf("\"of_peak\": %.3f, ", gb_per_s / peaks_.peak_gb_per_s);
    std::printf("\"gb_per_s\": %.1f}\n", gb_per_s);
    std::fflush(stdout);
  }

  // Returns what one run leaves in c, whose former contents are overwritten with NaN.
  std::vector<float> result(std::int64_t floats, const Run& run) {
    std::vector<float> out(static_cast<std::size_t>(floats), NAN);
    const std::size_t bytes = out.size() * sizeof(float);
    device_.copy_in(stream_, c, out.data(), bytes);
    run(stream_);
    device_.copy_out(stream_, out.data(), c, bytes);
    require(device_.synchronise(stream_));
    return out;
  }

  const cuda::DeviceKernels& kernels() const { return device_.kernels(); }
  cuda::DeviceVendorLibrary* library() const { return library_; }
  float *a = nullptr, *b = nullptr, *c = nullptr, *ws = nullptr;

 private:
  // Random numbers, the same in every run, because a processor is faster with zeros.
  void fill(float* memory, std::size_t floats) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1.0F, 1.0F);
    std::vector<float> values(std::size_t{1} << 20);
    for (float& v : values) v = value(random);
    for (std::size_t at = 0; at < floats; at += values.size())
      device_.copy_in(stream_, memory + at, values.data(),
                      std::min(values.size(), floats - at) * sizeof(float));
    require(device_.synchronise(stream_));
  }
  // Seconds of one run. A round consists of several runs.
  double time(const Run& run) {
    run(stream_);
    require(device_.synchronise(stream_));
    int count = 0;
    const double begin = seconds();
    for (int batch = 1; seconds() - begin < kRoundSeconds; batch *= 2) {
      for (int i = 0; i < batch; ++i) run(stream_);
      require(device_.synchronise(stream_));
      count += batch;
    }
    return (seconds() - begin) / count;
  }
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  cuda::Device& device_;
  cuda::DeviceVendorLibrary* library_;
  cuda::Stream stream_;
  const CudaDevice peaks_;
};

// If the library lacks the kernel, only ours is measured.
std::unique_ptr<cuda::DeviceVendorKernel> kernel_or_none(
    Result<std::unique_ptr<cuda::DeviceVendorKernel>> made) {
  return made ? *std::move(made) : nullptr;
}

void gemm(Bench& bench, std::int64_t m, std::int64_t n, std::int64_t k) {
  const GemmShape s{.m = m,
                    .n = n,
                    .k = k,
                    .a_row = k,
                    .a_col = 1,
                    .b_row = n,
                    .b_col = 1,
                    .c_row = n,
                    .c_col = 1};
  bench.compare(
      "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
      [&](cuda::Stream stream) {
        bench.kernels().gemm(stream, s, 1, 0, 0, 0, bench.a, bench.b, nullptr, bench.c, bench.ws);
      },
      bench.library() ? kernel_or_none(bench.library()->gemm({.gemm = s})) : nullptr);
}

// The forward pass of a linear layer, exactly.
void exact(Bench& bench, std::int64_t m, std::int64_t n, std::int64_t k) {
  using cuda::ExactRoute;
  for (const Arithmetic arithmetic : {Arithmetic::kX15, Arithmetic::kX22}) {
    const GemmShape s{
        .m = m, .n = n, .k = k, .a_row = k, .b_col = k, .c_row = n, .arithmetic = arithmetic};
    const auto by = [&](ExactRoute route) {
      return [&bench, s, route](cuda::Stream stream) {
        bench.kernels().exact_gemm(stream, route, s, 1, 0, 0, 0, bench.a, bench.b, nullptr, bench.c,
                                   bench.ws);
      };
    };
    const std::vector<float> expected = bench.result(m * n, by(ExactRoute::kResults));
    for (const auto& [route, route_name] :
         {std::pair{ExactRoute::kTiles, "tiles"}, {ExactRoute::kGroups, "groups"}}) {
      if (!bench.kernels().has_exact_route(route)) continue;
      const std::string name = std::string(arithmetic == Arithmetic::kX15 ? "x15 " : "x22 ") +
                               route_name + " " + std::to_string(m) + "x" + std::to_string(n) +
                               "x" + std::to_string(k);
      const std::vector<float> actual = bench.result(m * n, by(route));
      if (std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)) != 0)
        stop(name + ": other bits than without tensor cores");
      bench.compare(name,
                    2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                    by(route), nullptr);
    }
  }
}

void conv(Bench& bench, const ConvShape& s) {
  const double flop = 2.0 * static_cast<double>(s.n * s.oh() * s.ow() * s.oc) *
                      static_cast<double>(s.kh * s.kw * s.c / s.groups);
  const std::string shape = std::to_string(s.n) + "x" + std::to_string(s.h) + "x" +
                            std::to_string(s.w) + "x" + std::to_string(s.c) + " > " +
                            std::to_string(s.oc) + ", " + std::to_string(s.kh) + "x" +
                            std::to_string(s.kw);
  const auto theirs = [&](ConvPass pass) {
    return bench.library() ? kernel_or_none(bench.library()->conv(s, pass)) : nullptr;
  };
  const cuda::DeviceKernels& k = bench.kernels();
  bench.compare(
      "conv forward " + shape, flop,
      [&](cuda::Stream stream) {
        k.conv_fwd(stream, s, bench.a, bench.b, nullptr, bench.c, bench.ws);
      },
      theirs(ConvPass::kForward));
  bench.compare(
      "conv data gradient " + shape, flop,
      [&](cuda::Stream stream) { k.conv_dgrad(stream, s, bench.a, bench.b, bench.c, bench.ws); },
      theirs(ConvPass::kDataGradient));
  bench.compare(
      "conv weight gradient " + shape, flop,
      [&](cuda::Stream stream) { k.conv_wgrad(stream, s, bench.a, bench.b, bench.c, bench.ws); },
      theirs(ConvPass::kWeightGradient));
}

ConvShape square(std::int64_t n, std::int64_t side, std::int64_t c, std::int64_t oc,
                 std::int64_t kernel) {
  return {.n = n,
          .h = side,
          .w = side,
          .c = c,
          .oc = oc,
          .kh = kernel,
          .kw = kernel,
          .pad = kernel / 2};
}

// The search for values that are not finite, which D2 needs for each result, and a sum beside it.
// 16 MiB: this much is searched together, and may still be in the cache.
void memory(Bench& bench, std::int64_t floats) {
  const std::string size = std::to_string(floats >> 18) + " MiB";
  const auto bytes = static_cast<double>(4 * floats);
  const cuda::DeviceKernels& k = bench.kernels();
  auto* const found = reinterpret_cast<std::int32_t*>(bench.ws);
  bench.measure("find non-finite " + size, bytes, [&](cuda::Stream stream) {
    const cuda::FiniteCheck check{bench.a, floats, found};
    k.find_non_finite(stream, &check, 1);
  });
  bench.measure("add " + size, 3 * bytes,
                [&](cuda::Stream stream) { k.add(stream, floats, bench.a, bench.b, bench.c); });
}

double bytes_of(std::int64_t floats) {
  return 4.0 * static_cast<double>(floats);
}
std::string sized(const char* what, std::int64_t rows, std::int64_t c) {
  return std::string(what) + " " + std::to_string(rows) + "x" + std::to_string(c);
}

// Small vectors lie at the beginning of the workspace. The kernel's own scratch memory follows.
constexpr std::int64_t kVectors = 1 << 16;

void batch_norm(Bench& bench, std::int64_t rows, std::int64_t c) {
  const cuda::DeviceKernels& k = bench.kernels();
  const auto vector = [&](int i) { return bench.ws + i * c; };
  float* const scratch = bench.ws + kVectors;
  bench.measure(sized("batch norm forward", rows, c), 2 * bytes_of(rows * c),
                [&](cuda::Stream stream) {
                  k.bn_train_fwd(stream, {.rows = rows,
                                          .c = c,
                                          .x = bench.a,
                                          .gamma = vector(0),
                                          .beta = vector(1),
                                          .running_mean = vector(2),
                                          .running_var = vector(3),
                                          .y = bench.c,
                                          .mean = vector(4),
                                          .istd = vector(5),
                                          .next_mean = vector(6),
                                          .next_var = vector(7),
                                          .ws = scratch});
                });
  bench.measure(sized("batch norm backward", rows, c), 3 * bytes_of(rows * c),
                [&](cuda::Stream stream) {
                  k.bn_bwd(stream, {.rows = rows,
                                    .c = c,
                                    .x = bench.a,
                                    .dy = bench.b,
                                    .mean = vector(4),
                                    .istd = vector(5),
                                    .gamma = vector(0),
                                    .beta = vector(1),
                                    .dx = bench.c,
                                    .dgamma = vector(6),
                                    .dbeta = vector(7),
                                    .ws = scratch});
                });
}

void layer_norm(Bench& bench, std::int64_t rows, std::int64_t c) {
  const cuda::DeviceKernels& k = bench.kernels();
  float *const gamma = bench.ws, *const beta = gamma + c, *const dgamma = beta + c;
  float *const dbeta = dgamma + c, *const mean = bench.ws + kVectors, *const istd = mean + rows;
  bench.measure(
      sized("layer norm forward", rows, c), 2 * bytes_of(rows * c), [&](cuda::Stream stream) {
        k.layer_norm_fwd(stream, rows, c, bench.a, gamma, beta, 1e-5F, bench.c, mean, istd);
      });
  bench.measure(sized("layer norm backward", rows, c), 3 * bytes_of(rows * c),
                [&](cuda::Stream stream) {
                  k.layer_norm_bwd(stream, rows, c, bench.a, bench.b, mean, istd, gamma, bench.c,
                                   dgamma, dbeta, istd + rows);
                });
}

void softmax(Bench& bench, std::int64_t rows, std::int64_t c) {
  const cuda::DeviceKernels& k = bench.kernels();
  bench.measure(sized("softmax forward", rows, c), 2 * bytes_of(rows * c),
                [&](cuda::Stream stream) { k.softmax_fwd(stream, rows, c, bench.a, bench.c); });
  bench.measure(
      sized("softmax backward", rows, c), 3 * bytes_of(rows * c),
      [&](cuda::Stream stream) { k.softmax_bwd(stream, rows, c, bench.a, bench.b, bench.c); });
}

void attention(Bench& bench, std::int64_t batch, std::int64_t tokens, std::int64_t heads) {
  constexpr std::int64_t kHeadDim = 64;
  const std::int64_t width = heads * kHeadDim, each = batch * tokens * width;
  const AttentionShape s{.batch = batch,
                         .tokens = tokens,
                         .heads = heads,
                         .head_dim = kHeadDim,
                         .qkv_stride = width,
                         .y_stride = width,
                         .scale = 0.125F};
  const cuda::DeviceKernels& k = bench.kernels();
  const auto in = [&](int i) { return bench.a + i * each; };
  const auto out = [&](int i) { return bench.c + i * each; };
  const std::string size = sized("", batch, tokens) + "x" + std::to_string(width);
  bench.measure("attention forward" + size, bytes_of(4 * each), [&](cuda::Stream stream) {
    k.attention_fwd(stream, s, in(0), in(1), in(2), {}, nullptr, out(0), bench.b, bench.ws);
  });
  bench.measure("attention backward" + size, bytes_of(7 * each), [&](cuda::Stream stream) {
    k.attention_bwd(stream, s, in(0), in(1), in(2), {}, bench.b, in(3), nullptr, out(0), out(1),
                    out(2), nullptr, bench.ws);
  });
}

void adam(Bench& bench, std::int64_t n) {
  const AdamStep step{.lr_over_bc1 = 1e-3F, .rsqrt_bc2 = 1.0F};
  bench.measure("Adam " + std::to_string(n), 7 * bytes_of(n), [&](cuda::Stream stream) {
    bench.kernels().adam(stream, n, bench.a, 1.0F, step, bench.b, bench.c, bench.ws, {});
  });
}

void depthwise(Bench& bench, ConvShape s) {
  s.groups = s.oc = s.c;
  const cuda::DeviceKernels& k = bench.kernels();
  const std::int64_t rows = s.n * s.h * s.w;
  const double bytes = 2 * bytes_of(rows * s.c);
  bench.measure(sized("depthwise forward", rows, s.c), bytes, [&](cuda::Stream stream) {
    k.conv_fwd(stream, s, bench.a, bench.b, nullptr, bench.c, bench.ws);
  });
  bench.measure(sized("depthwise data gradient", rows, s.c), bytes, [&](cuda::Stream stream) {
    k.conv_dgrad(stream, s, bench.a, bench.b, bench.c, bench.ws);
  });
  bench.measure(sized("depthwise weight gradient", rows, s.c), bytes, [&](cuda::Stream stream) {
    k.conv_wgrad(stream, s, bench.a, bench.b, bench.c, bench.ws);
  });
}

// Kernels that need more time for reading memory than for computing.
void bandwidth(Bench& bench, bool quick) {
  batch_norm(bench, quick ? 512 : 32 * 56 * 56, quick ? 16 : 256);
  layer_norm(bench, quick ? 64 : 128 * 384, quick ? 96 : 768);
  softmax(bench, quick ? 64 : 8 * 12 * 1024, 384);
  attention(bench, quick ? 1 : 8, quick ? 32 : 384, quick ? 2 : 12);
  adam(bench, quick ? 1 << 16 : 25'557'032);  // ResNet-50
  depthwise(bench, square(quick ? 1 : 32, quick ? 8 : 56, quick ? 16 : 128, 1, 3));
}

void run(Bench& bench, bool quick) {
  memory(bench, quick ? 1 << 18 : 4 << 20);
  if (!quick) memory(bench, 128 << 20);
  bandwidth(bench, quick);
  if (quick) {
    gemm(bench, 64, 64, 64);
    exact(bench, 150, 70, 600);
    conv(bench, square(2, 8, 16, 16, 3));
    return;
  }
  exact(bench, 4096, 4096, 4096);
  exact(bench, 8192, 2304, 768);
  exact(bench, 8192, 768, 3072);
  exact(bench, 768, 3072, 8192);
  exact(bench, 4096, 50257, 768);
  gemm(bench, 4096, 4096, 4096);
  gemm(bench, 1024, 1024, 1024);
  gemm(bench, 4096, 768, 3072);
  gemm(bench, 256, 4096, 25088);
  for (const ConvShape& s :
       {square(32, 56, 64, 64, 3), square(32, 28, 128, 128, 3), square(32, 14, 256, 256, 3),
        square(32, 7, 512, 512, 3), square(32, 56, 256, 64, 1), square(32, 14, 256, 1024, 1)})
    conv(bench, s);
}

}  // namespace
}  // namespace es::bench

int main(int argc, char** argv) {
  using namespace es::bench;
  int gpu = 0;
  bool host = false, quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--host") {
      host = true;
    } else if (word == "--quick") {
      quick = true;
    } else if (word == "--gpu" && i + 1 < argc) {
      gpu = std::atoi(argv[++i]);
    } else {
      stop("unknown option " + word);
    }
  }
  es::Result<std::unique_ptr<es::gpu::cuda::Device>> device =
      host ? es::gpu::cuda::open_host_device() : es::gpu::cuda::open_gpu(gpu);
  if (!device) stop(device.error().message);
  std::unique_ptr<es::gpu::cuda::DeviceVendorLibrary> library;
  if (!host) {
    auto found = es::gpu::cuda::open_vendor_library(**device, es::gpu::cuda::VendorMath::kFp32);
    if (!found) stop(found.error().message);
    library = *std::move(found);
  }
  // Every operand and workspace of the shapes above fits.
  const es::gpu::CudaInventory cuda = es::gpu::cuda_inventory();
  Bench bench(**device, library.get(), quick ? std::size_t{1} << 20 : std::size_t{256} << 20,
              host ? es::gpu::CudaDevice() : cuda.devices.at(static_cast<std::size_t>(gpu)));
  run(bench, quick);
  return 0;
}
