#pragma once
// The shared memory of a block on host threads, with what arrives there later (block.h): the copies
// of threads, barriers with their copies, and the memory that products of groups may read. It stops
// the program at what a GPU does not define.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "gpu/cuda/block.h"

namespace es::gpu::cuda::on_host {

class HostShared {
 public:
  // `at_once`: copies are made when they begin, otherwise when they are awaited.
  HostShared(const void* memory, std::size_t bytes, unsigned threads, bool at_once);

  void copy(unsigned thread, void* to, const void* from, std::size_t bytes);
  void end_copies(unsigned thread);
  void await_copies(unsigned thread, std::size_t newest);

  void init(const Barrier& barrier, std::uint32_t arrivals);
  void publish_barriers();
  void arrive(const Barrier& barrier);
  void expect(const Barrier& barrier, std::uint32_t bytes);
  void copy(void* to, const void* from, std::uint32_t bytes, const Barrier& barrier);
  // Returns whether a phase with this parity has ended; ends it if everything has come.
  bool ended(const Barrier& barrier, unsigned parity);

  std::uint32_t address(const void* shared) const;
  // Returns 16 bytes that a product reads.
  const std::uint8_t* read(std::uint32_t address) const;

  // At the end of the block: everything that began was awaited.
  void check_end() const;

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct Copies {
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;  // the oldest first
  };
  struct Phases {
    std::uint32_t arrivals = 0, missing = 0, expected = 0, copied = 0;
    unsigned parity = 0;  // of the current phase
    bool published = false;
    std::vector<Copy> copies;
  };

  Copy checked(void* to, const void* from, std::size_t bytes) const;
  void make(const Copy& copy);
  Phases& at(const Barrier& barrier);
  void end_if_complete(Phases& phases);

  const std::uint8_t* memory_;
  std::size_t bytes_;
  bool at_once_;
  std::vector<Copies> copies_;  // of each thread
  std::map<const Barrier*, Phases> barriers_;
  std::vector<bool> readable_;  // of each 16 bytes: whether products may read them
};

}  // namespace es::gpu::cuda::on_host
