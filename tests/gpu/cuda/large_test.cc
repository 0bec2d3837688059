// Sizes that occur on GPUs and that no test on host threads computes: models in their published
// sizes with mini-batches of 512. Queued work is dropped. Grids, divisors and arguments are checked
// when it is queued (launch_limits.h, divider.h). Only a sum is computed, of zeros that need no
// memory.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <vector>

#include "gpu/canonical/order.h"
#include "gpu/cuda/device_tables.h"
#include "gpu/cuda/launch_host.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/signal_of.h"

namespace es::gpu::cuda {
namespace {

class Dropped final : public HostQueue {
 public:
  void add(std::function<void()>) override { ++launches_; }
  int launches() const { return launches_; }

 private:
  int launches_ = 0;
};

// Aligned, and never read.
float* const kFloats = reinterpret_cast<float*>(std::uintptr_t{1} << 32);
std::int32_t* const kNumbers = reinterpret_cast<std::int32_t*>(kFloats);

constexpr std::int64_t kBatch = 512;

// Zeros of which only the pages that are written need memory.
class ZeroFloats {
 public:
  explicit ZeroFloats(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(float)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    REQUIRE(madvise(memory, bytes_, MADV_NOHUGEPAGE) == 0);
    floats_ = static_cast<float*>(memory);
  }
  ~ZeroFloats() { munmap(floats_, bytes_); }
  ZeroFloats(const ZeroFloats&) = delete;
  ZeroFloats& operator=(const ZeroFloats&) = delete;
  float& operator[](std::int64_t i) const { return floats_[i]; }
  float* data() const { return floats_; }

 private:
  std::size_t bytes_;
  float* floats_ = nullptr;
};

// The number of kernels that `queue` launches.
template <class Queue>
int launches(const Queue& queue) {
  Dropped dropped;
  queue(host_kernels(), Stream{&dropped});
  return dropped.launches();
}

int conv_launches(const ConvShape& s) {
  return launches([&](const DeviceKernels& k, Stream stream) {
    k.conv_fwd(stream, s, kFloats, kFloats, kFloats, kFloats, kFloats);
    k.conv_dgrad(stream, s, kFloats, kFloats, kFloats, kFloats);
    k.conv_wgrad(stream, s, kFloats, kFloats, kFloats, kFloats);
  });
}

TEST_SUITE("gpu/cuda/large") {
  TEST_CASE("convolutions of the models at a mini-batch of 512") {
    for (const ConvShape& s : {
             ConvShape{
                 .h = 224, .w = 224, .c = 3, .oc = 64, .kh = 7, .kw = 7, .stride = 2, .pad = 3},
             ConvShape{.h = 224, .w = 224, .c = 64, .oc = 64, .kh = 3, .kw = 3, .pad = 1},
             ConvShape{.h = 416, .w = 416, .c = 3, .oc = 32, .kh = 3, .kw = 3, .pad = 1},
             ConvShape{.h = 208, .w = 208, .c = 64, .oc = 32, .kh = 1, .kw = 1},
             ConvShape{.h = 56, .w = 56, .c = 256, .oc = 512, .kh = 1, .kw = 1, .stride = 2},
             ConvShape{.h = 7, .w = 7, .c = 512, .oc = 2048, .kh = 1, .kw = 1},
             ConvShape{.h = 56,
             .w = 56,
             .c = 24,
             .oc = 24,
             .kh = 3,
             .kw = 3,
             .stride = 2,
             .pad = 1,
             .groups = 24},
             ConvShape{
                 .h = 28, .w = 28, .c = 58, .oc = 58, .kh = 3, .kw = 3, .pad = 1, .groups = 58},
         }) {
      ConvShape shape = s;
      shape.n = kBatch;
      CHECK(conv_launches(shape) >= 3);
    }
  }

  TEST_CASE("products and attention of the models") {
    const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k) {
      const GemmShape s{.m = m,
                        .n = n,
                        .k = k,
                        .a_row = k,
                        .a_col = 1,
                        .b_row = n,
                        .b_col = 1,
                        .c_row = n,
                        .c_col = 1};
      return launches([&](const DeviceKernels& kernels, Stream stream) {
        kernels.gemm(stream, s, 1, 0, 0, 0, kFloats, kFloats, kFloats, kFloats, kFloats);
      });
    };
    CHECK(product(4096, 4096, 4096) >= 1);
    CHECK(product(kBatch, 4096, 25088) >= 1);
    CHECK(product(25088, 4096, kBatch) >= 1);
    CHECK(product(kBatch * 512, 3072, 768) >= 1);
    CHECK(product(768, 3072, kBatch * 512) >= 1);
    CHECK(product(kBatch * 512, 30522, 1) >= 1);
    AttentionShape s{.batch = kBatch,
                     .tokens = 384,
                     .heads = 12,
                     .head_dim = 64,
                     .qkv_stride = 3 * 768,
                     .y_stride = 768,
                     .masks = 0,
                     .dropout = {}};
    s.dropout = {.threshold = 1u << 31, .factor = 2.0F};
    const DropoutKey key;
    CHECK(launches([&](const DeviceKernels& k, Stream stream) {
            k.attention_fwd(stream, s, kFloats, kFloats, kFloats, {}, &key, kFloats, kFloats,
                            kFloats);
            s.bias_gradient = true;
            k.attention_bwd(stream, s, kFloats, kFloats, kFloats, {}, kFloats, kFloats, &key,
                            kFloats, kFloats, kFloats, kFloats, kFloats);
          }) >= 8);
  }

  TEST_CASE("operators on rows and columns") {
    constexpr std::int64_t kPixels = kBatch * 112 * 112, kTokens = kBatch * 512;
    BnForward forward{.rows = kPixels, .c = 64};
    forward.x = forward.gamma = forward.beta = forward.running_mean = forward.running_var = kFloats;
    forward.y = forward.mean = forward.istd = forward.ws = kFloats;
    forward.next_mean = forward.next_var = kFloats;
    BnBackward backward{.rows = kPixels, .c = 64};
    backward.x = backward.dy = backward.mean = backward.istd = kFloats;
    backward.gamma = backward.beta = kFloats;
    backward.dx = backward.dgamma = backward.dbeta = backward.ws = kFloats;
    CHECK(launches([&](const DeviceKernels& k, Stream stream) {
            k.bn_train_fwd(stream, forward);
            k.bn_bwd(stream, backward);
            k.colsum(stream, kTokens, 3072, kFloats, kFloats, kFloats);
            k.layer_norm_fwd(stream, kTokens, 768, kFloats, kFloats, kFloats, 1e-5F, kFloats,
                             kFloats, kFloats);
            k.layer_norm_bwd(stream, kTokens, 768, kFloats, kFloats, kFloats, kFloats, kFloats,
                             kFloats, kFloats, kFloats, kFloats);
            k.softmax_xent_fwd(stream, kTokens, 2, kFloats, kNumbers, {}, kFloats, kFloats);
            k.softmax_xent_mean(stream, kTokens, kNumbers, kFloats, kFloats);
            k.softmax_xent_bwd(stream, kTokens, 2, kFloats, kNumbers, {kTokens, kNumbers}, {},
                               kFloats);
            k.embedding_fwd(stream, kTokens, 768, kFloats, kNumbers, kFloats);
            k.embedding_bwd(stream, kTokens, 768, 30522, kNumbers, kFloats, nullptr, kFloats,
                            kFloats);
          }) >= 20);
  }

  TEST_CASE("operators on all elements of a tensor of nearly 2^32 elements") {
    constexpr std::int64_t kElements = (std::int64_t{1} << 32) - 4096;
    const ChainStage relu{.kind = ChainKind::kScale};
    const DropoutKey key;
    const FiniteCheck check{kFloats, kElements, kNumbers};
    const PoolShape pool{.n = kBatch,
                         .h = 360,
                         .w = 360,
                         .c = 64,
                         .kh = 3,
                         .kw = 3,
                         .stride_h = 2,
                         .stride_w = 2,
                         .pad_h = 1,
                         .pad_w = 1};
    auto* const argmax = reinterpret_cast<std::uint8_t*>(kFloats);
    CHECK(launches([&](const DeviceKernels& k, Stream stream) {
            k.chain(stream, kElements, kFloats, &relu, 1, {}, &key, kFloats);
            k.add(stream, kElements, kFloats, kFloats, kFloats);
            k.add(stream, kElements - 1, kFloats, kFloats, kFloats);  // Floats, not packs.
            k.fill_zero(stream, kElements, kFloats);
            k.find_non_finite(stream, &check, 1);
            k.adam(stream, kElements, kFloats, 1.0F, {}, kFloats, kFloats, kFloats, {});
            k.max_pool_fwd(stream, pool, kFloats, kFloats, argmax);
            k.max_pool_bwd(stream, pool, kFloats, argmax, kFloats);
          }) == 8);
  }

  TEST_CASE("a tensor with more elements than a kernel numbers is refused before a launch") {
    const auto refused = [](const auto& queue) {
      return test::signal_of([&] { launches(queue); }) == SIGABRT;
    };
    // Rows of 2^16 elements each: the largest number of them, and one more.
    constexpr std::int64_t kRow = 1 << 16, kRows = kDeviceTensorMax / kRow;
    const ChainStage relu{.kind = ChainKind::kRelu};
    const DropoutKey key;
    ElementCode code{.inputs = 1, .instructions = 1, .outputs = 1};
    code.instruction[0] = {.op = ElementOp::kNegate, .to = 0, .a = kFirstInput};
    for (const std::int64_t rows : {kRows, kRows + 1}) {
      INFO(rows, " rows");
      const bool many = rows > kRows;
      const std::int64_t n = rows * kRow;
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              k.chain(stream, n, kFloats, &relu, 1, {}, &key, kFloats);
            }));
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              k.uniform(stream, n, 0, &key, kFloats);
            }));
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              k.softmax_xent_bwd(stream, rows, kRow, kFloats, kNumbers, {rows, kNumbers}, {},
                                 kFloats);
            }));
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              const float* const in[] = {kFloats};
              float* const out[] = {kFloats};
              k.program(stream, code, {.rank = 1, .size = {n}, .stride = {{1}}}, {}, in, out, n);
            }));
      // One thread for each element: no packs.
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              k.upsample2_bwd(stream, rows, kRow, 1, 1, kFloats, kFloats);
            }));
      // A depthwise convolution divides by multiplication, with numbers below 2^31.
      CHECK(many == refused([&](const DeviceKernels& k, Stream stream) {
              ConvShape s{.n = rows, .h = kRow / 4, .w = 1, .c = 2, .oc = 2, .kh = 1, .kw = 1};
              s.groups = 2;
              k.conv_fwd(stream, s, kFloats, kFloats, nullptr, kFloats, kFloats);
            }));
    }
  }

  TEST_CASE("the sum of squares of more than 2^28 elements has two levels on all devices") {
    // The second level has two results in each of the lanes 0 and 1, and no other one is not 0. In
    // the order of the definition lane 1 is 2^-23. With a third level each 2^-24 would be added to
    // 1 alone, and lost.
    const std::int64_t n = (std::int64_t{1} << 28) + kSumChunk + 1;
    const ZeroFloats x(n);
    x[0] = 1.0F;
    x[kSumChunk] = x[n - 1] = 0x1p-12F;
    const float expected = 1.0F + 0x1p-23F;
    const auto on_cpus = testing::same_in_all_classes("sum of squares", [&](const KernelTable& t) {
      std::vector<testing::Floats> out;
      out.emplace_back(1)[0] = t.sum_of_squares(n, x.data());
      return out;
    });
    CHECK(on_cpus[0][0] == expected);
    std::vector<float> workspace(host_kernels().sum_of_squares_workspace_floats(n));
    float squares[] = {-1.0F, -1.0F};
    host_kernels().sum_of_squares({}, n, x.data(), squares, workspace.data());
    CHECK(squares[0] == expected);
    CHECK(squares[1] == -1.0F);  // the place of the next parameter
  }
}

}  // namespace
}  // namespace es::gpu::cuda
