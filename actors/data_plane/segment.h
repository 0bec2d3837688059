#pragma once
// Shared-memory segments: how workers on one host read each other's gradients without a copy.
//
// Fencing by not sharing: a segment belongs to one (job, incarnation, generation), which is its name;
// only its owner writes to it, and a name is never used again. A process that wakes up late can
// therefore only write into memory that nobody reads any more.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors {

// "/es.JOB.INCARNATION.GENERATION.PART", a POSIX shared-memory name.
// `part` tells the segments of one generation apart ("grad.0").
std::string segment_name(const JobId& job, Incarnation incarnation, Generation generation,
                         const std::string& part);

// Removes the names of all segments of an incarnation (after its process was reaped; the memory goes
// with the last mapping). Returns how many there were.
int remove_segments_of(const JobId& job, Incarnation incarnation);

// A mapping of a whole segment. Unmapped on destruction; the creator also removes the name.
// Thread-compatible: the bytes are synchronised by the messages that refer to them.
class Segment {
 public:
  // Creates a new segment, zeroed, read-write. Error (failure): shared memory is full or the name
  // exists. The memory is taken at once (no surprise later, when it is written).
  static Result<std::unique_ptr<Segment>> create(const std::string& name, std::uint64_t bytes);
  // Maps an existing segment read-only. Error (not found, failure).
  static Result<std::unique_ptr<Segment>> open(const std::string& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }
  // REQUIRES: created, not opened.
  std::byte* data();
  const std::byte* data() const { return data_; }

 private:
  Segment(std::string name, std::byte* data, std::uint64_t bytes, bool owner)
      : name_(std::move(name)), data_(data), bytes_(bytes), owner_(owner) {}

  std::string name_;
  std::byte* data_;
  std::uint64_t bytes_;
  bool owner_;
};

// The segments of other workers that this one reads, mapped on first use. Used by one thread.
class SegmentCache {
 public:
  // The bytes [offset, offset + bytes) of a segment; valid until clear().
  // Error: cannot be mapped, or the range is outside of it.
  Result<std::span<const std::byte>> read(const std::string& name, std::uint64_t offset,
                                          std::uint64_t bytes);
  void clear() { segments_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<Segment>> segments_;
};

}  // namespace es::actors
