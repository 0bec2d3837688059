#pragma once
// Shared-memory segments: how workers on one host read each other's gradients without a copy.
//
// Fencing by not sharing: a segment belongs to one (job, incarnation, generation), which is its
// label; only its owner writes to it, and a label is never used again. A process that wakes up late
// can therefore only write into memory that nobody reads any more.
//
// The memory is anonymous (memfd): peers reach it through the process that owns it, by the address
// "PID:FD:LABEL", while that process lives. So nothing stays behind however processes end, two
// clusters on one machine cannot meet in a name, and the size of /dev/shm (64 MiB in many
// containers) is no limit.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors {

// "es.JOB.INCARNATION.GENERATION.PART".
// `part` tells the segments of one generation apart ("grad.0").
std::string segment_label(const JobId& job, Incarnation incarnation, Generation generation,
                          const std::string& part);

// A mapping of a whole segment, unmapped on destruction.
// Thread-compatible: the bytes are synchronised by the messages that refer to them.
class Segment {
 public:
  // Creates a new segment, zeroed, read-write. Error (failure): the memory is not there. It is
  // taken at once (no surprise later, when it is written).
  static Result<std::unique_ptr<Segment>> create(const std::string& label, std::uint64_t bytes);
  // Maps another's segment read-only. Errors: usage (not an address), not found (its owner has
  // dropped it or has ended), failure.
  static Result<std::unique_ptr<Segment>> open(const std::string& address);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  // REQUIRES: created, not opened.
  std::byte* data();
  const std::byte* data() const { return data_; }

 private:
  Segment(std::string address, std::byte* data, std::uint64_t bytes, int owner_fd)
      : address_(std::move(address)), data_(data), bytes_(bytes), owner_fd_(owner_fd) {}

  std::string address_;
  std::byte* data_;
  std::uint64_t bytes_;
  int owner_fd_;  // of the owner, through which peers open the memory; -1 in a peer
};

// The segments of other workers that this one reads, mapped on first use. Used by one thread.
class SegmentCache {
 public:
  // The bytes [offset, offset + bytes) of a segment; valid until clear().
  // Error: cannot be mapped, or the range is outside of it.
  Result<std::span<const std::byte>> read(const std::string& address, std::uint64_t offset,
                                          std::uint64_t bytes);
  void clear() { segments_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<Segment>> segments_;
};

}  // namespace es::actors
