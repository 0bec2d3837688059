#pragma once
// Segments of shared memory, through which workers on one host read each other's gradients without
// a copy.
//
// A segment belongs to one job, incarnation and generation, which are its label. Only its owner
// writes to it, and a label is never used again. A process that was frozen and wakes up late can
// therefore only write into memory that no other process reads any more.
//
// The memory is anonymous (memfd). While the owner lives, peers reach it through /proc by the
// address "PID:FD:LABEL". Hence nothing is left behind however a process ends, two clusters on one
// machine cannot have conflicting names, and the size of /dev/shm (64 MiB in many containers) does
// not limit a segment.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors {

// Returns "es.JOB.INCARNATION.GENERATION.PART". `part` distinguishes the segments of one generation
// (for example, "grad.0").
std::string segment_label(const JobId& job, Incarnation incarnation, Generation generation,
                          const std::string& part);

// A mapping of a whole segment, which is unmapped on destruction.
//
// Thread-compatible: the messages that refer to the bytes synchronise the accesses to them.
class Segment {
 public:
  // Creates a new segment that is zeroed and writable. All of its memory is allocated at once, so a
  // later write cannot fail. Error (failure): there is not enough memory.
  static Result<std::unique_ptr<Segment>> create(const std::string& label, std::uint64_t bytes);
  // The same without memory. A page takes memory when it is first written, and if there is none
  // then, the system ends the process.
  static Result<std::unique_ptr<Segment>> reserve(const std::string& label, std::uint64_t bytes);
  // Maps the segment of another process for reading. Errors: usage (the text is not an address),
  // not found (the owner has dropped the segment or has ended), failure.
  static Result<std::unique_ptr<Segment>> open(const std::string& address);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  // --- Of the owner. REQUIRES: this object was made by create() or reserve().
  std::byte* data();
  // Takes memory for all bytes, as create() does. What is written already stays. Error (failure):
  // there is not enough memory.
  Status allocate();
  // Gives the memory of all pages that lie within [offset, offset + bytes) back to the system. They
  // are zero for all processes then. REQUIRES: the range lies within the segment.
  void release(std::uint64_t offset, std::uint64_t bytes);
  // The bytes that have memory at present.
  std::uint64_t resident_bytes() const;

  const std::byte* data() const { return data_; }

 private:
  Segment(std::string address, std::byte* data, std::uint64_t bytes, int owner_fd)
      : address_(std::move(address)), data_(data), bytes_(bytes), owner_fd_(owner_fd) {}

  std::string address_;
  std::byte* data_;
  std::uint64_t bytes_;
  int owner_fd_;            // the descriptor through which peers open the memory; -1 in a peer
  bool allocated_ = false;  // all bytes have memory
};

// The segments of other workers that this worker reads. Each is mapped on first use. Not
// thread-safe.
class SegmentCache {
 public:
  // Returns the bytes [offset, offset + bytes) of a segment, which are valid until clear(). Error:
  // the segment cannot be mapped, or the range lies outside of it.
  Result<std::span<const std::byte>> read(const std::string& address, std::uint64_t offset,
                                          std::uint64_t bytes);
  void clear() { segments_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<Segment>> segments_;
};

}  // namespace es::actors
