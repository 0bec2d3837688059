#pragma once
// The tensor cores of a block on host threads (block.h). The distribution of matrices over threads
// is that of the PTX manual: mma.m16n8k32, mma.m8n8k16 and wgmma.m64n64k32.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cuda/host_shared.h"

namespace es::gpu::cuda::on_host {

struct Signs {
  bool a, b;  // whether the bytes of the two factors have signs
  bool operator==(const Signs&) const = default;
};

// What one of the 32 threads of a run brings to a product.
struct Fragments {
  std::int32_t* c;         // 4 words
  const std::uint32_t* a;  // 4 words
  const std::uint32_t* b;  // 2 words
  Signs signs;             // equal in all threads
};
using RunFragments = std::array<const Fragments*, 32>;

void multiply_m16n8k32(const RunFragments& run);
// The same product as four products of m8n8k16.
void multiply_m8n8k16(const RunFragments& run);

// The products of the groups of a block, which read shared memory when they are made.
class HostProducts {
 public:
  // `at_once`: products are made when they are added, otherwise when they are awaited.
  HostProducts(const HostShared& shared, unsigned threads, bool at_once);

  void begin(unsigned thread);
  void add(unsigned thread, std::int32_t* c, std::uint64_t a, std::uint64_t b, Signs signs);
  void end(unsigned thread);
  void await(unsigned thread, std::size_t newest);
  void check_end() const;

 private:
  struct Factors {
    std::uint64_t a, b;
    Signs signs;
    bool operator==(const Factors&) const = default;
  };
  struct Product {
    std::int32_t* c;
    Factors factors;
  };
  struct Thread {
    bool began = false;
    std::size_t added = 0;
    std::vector<Product> open;
    std::vector<std::vector<Product>> sets;  // the oldest first
  };

  void make(unsigned thread, const Product& product) const;

  const HostShared& shared_;
  bool at_once_;
  std::vector<Thread> threads_;
  std::vector<std::vector<Factors>> added_;  // of each group
};

}  // namespace es::gpu::cuda::on_host
