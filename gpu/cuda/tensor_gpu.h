#pragma once
// The operations of a block (block.h) for integer products on tensor cores, as instructions of PTX.
// Below the capability that has an instruction, its function does nothing: the host launches no
// kernel there that calls it.
#include <cstdint>

#include "gpu/cuda/block.h"

namespace es::gpu::cuda::on_gpu {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
#define ES_FROM_TURING(...) __VA_ARGS__
#else
#define ES_FROM_TURING(...) static_cast<void>(0)
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ES_FROM_AMPERE(...) __VA_ARGS__
#else
#define ES_FROM_AMPERE(...) static_cast<void>(0)
#endif
// sm_90a, whose instructions for groups no other GPU has.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ES_ON_HOPPER(...) __VA_ARGS__
#else
#define ES_ON_HOPPER(...) static_cast<void>(0)
#endif

struct TensorCores {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr bool kIsHopper = true;
#else
  static constexpr bool kIsHopper = false;
#endif

  __device__ static std::uint32_t address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }

  __device__ void copy_16(void* to, const void* from) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#else
    ES_FROM_AMPERE(
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from)
                     : "memory"));
#endif
  }
  __device__ void end_copies() const {
    ES_FROM_AMPERE(asm volatile("cp.async.commit_group;" ::: "memory"));
  }
  template <int kNewest>
  __device__ void await_copies() const {
    ES_FROM_AMPERE(asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory"));
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  // Four products of m8n8k16: half of the rows and half of k each.
#define ES_PART(sa, sb, c0, c1, x, y)                                  \
  ES_FROM_TURING(asm("mma.sync.aligned.m8n8k16.row.col.s32." sa "." sb \
                     ".s32 {%0,%1}, {%2}, {%3}, {%0,%1};"              \
                     : "+r"(c0), "+r"(c1)                              \
                     : "r"(x), "r"(y)))
#define ES_PRODUCT(sa, sb)                 \
  ES_PART(sa, sb, c[0], c[1], a[0], b[0]); \
  ES_PART(sa, sb, c[0], c[1], a[2], b[1]); \
  ES_PART(sa, sb, c[2], c[3], a[1], b[0]); \
  ES_PART(sa, sb, c[2], c[3], a[3], b[1])
#else
#define ES_PRODUCT(sa, sb)                                                        \
  ES_FROM_AMPERE(asm("mma.sync.aligned.m16n8k32.row.col.s32." sa "." sb           \
                     ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])))
#endif
  template <bool kSignedA, bool kSignedB>
  __device__ void add_product(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                              const std::uint32_t (&b)[2]) const {
    if constexpr (kSignedA && kSignedB) {
      ES_PRODUCT("s8", "s8");
    } else if constexpr (kSignedA) {
      ES_PRODUCT("s8", "u8");
    } else if constexpr (kSignedB) {
      ES_PRODUCT("u8", "s8");
    } else {
      ES_PRODUCT("u8", "u8");
    }
  }
#undef ES_PRODUCT
#undef ES_PART

  // --- Barriers, and the copies that arrive at them.
  __device__ void init(Barrier& barrier, std::uint32_t arrivals) const {
    ES_ON_HOPPER(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&barrier)),
                              "r"(arrivals)
                              : "memory"));
  }
  __device__ void publish_barriers() const {
    ES_ON_HOPPER(asm volatile("fence.proxy.async.shared::cta;" ::: "memory"));
  }
  __device__ void arrive(Barrier& barrier) const {
    ES_ON_HOPPER(asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&barrier))
                              : "memory"));
  }
  __device__ void expect(Barrier& barrier, std::uint32_t bytes) const {
    ES_ON_HOPPER(asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&barrier)),
        "r"(bytes)
        : "memory"));
  }
  __device__ void await(Barrier& barrier, std::uint32_t parity) const {
    std::uint32_t ended = 1;
    do {
      ES_ON_HOPPER(
          asm volatile("{\n.reg .pred ended;\n"
                       "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                       "selp.b32 %0, 1, 0, ended;\n}"
                       : "=r"(ended)
                       : "r"(address(&barrier)), "r"(parity)
                       : "memory"));
    } while (ended == 0);
  }
  __device__ void copy(void* to, const void* from, std::uint32_t bytes, Barrier& barrier) const {
    ES_ON_HOPPER(asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(address(to)),
        "l"(from), "r"(bytes), "r"(address(&barrier))
        : "memory"));
  }

  // --- Products of groups. A block of 384 threads is launched with 168 registers a thread.
  template <int kRegisters>
  __device__ void set_registers() const {
    if constexpr (kRegisters < 168) {
      ES_ON_HOPPER(asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters)));
    } else {
      ES_ON_HOPPER(asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters)));
    }
  }
  // The compiler knows nothing of products in flight, so it is told that the sums change here.
  template <int kSets>
  __device__ void hold(std::int32_t (&c)[kSets][32]) const {
    ES_UNROLL
    for (int set = 0; set < kSets; ++set) {
      ES_UNROLL
      for (int i = 0; i < 32; ++i) ES_ON_HOPPER(asm volatile("" : "+r"(c[set][i])::"memory"));
    }
  }
  template <int kSets>
  __device__ void begin_products(std::int32_t (&c)[kSets][32]) const {
    hold(c);
    ES_ON_HOPPER(asm volatile("wgmma.fence.sync.aligned;" ::: "memory"));
  }
  __device__ void end_products() const {
    ES_ON_HOPPER(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"));
  }
  template <int kNewest, int kSets>
  __device__ void await_products(std::int32_t (&c)[kSets][32]) const {
    ES_ON_HOPPER(asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kNewest) : "memory"));
    hold(c);
  }
#define ES_PRODUCTS(sa, sb)                                                                        \
  ES_ON_HOPPER(asm volatile(                                                                       \
      "wgmma.mma_async.sync.aligned.m64n64k32.s32." sa "." sb                                      \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"           \
      "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1;"                                     \
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]),        \
        "+r"(c[7]), "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]),    \
        "+r"(c[14]), "+r"(c[15]), "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), \
        "+r"(c[21]), "+r"(c[22]), "+r"(c[23]), "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), \
        "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31])                                         \
      : "l"(a), "l"(b)))
  template <bool kSignedA, bool kSignedB>
  __device__ void add_products(std::int32_t (&c)[32], std::uint64_t a, std::uint64_t b) const {
    if constexpr (kSignedA && kSignedB) {
      ES_PRODUCTS("s8", "s8");
    } else if constexpr (kSignedA) {
      ES_PRODUCTS("s8", "u8");
    } else if constexpr (kSignedB) {
      ES_PRODUCTS("u8", "s8");
    } else {
      ES_PRODUCTS("u8", "u8");
    }
  }
#undef ES_PRODUCTS
};

#undef ES_FROM_TURING
#undef ES_FROM_AMPERE
#undef ES_ON_HOPPER

}  // namespace es::gpu::cuda::on_gpu
