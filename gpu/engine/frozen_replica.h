#pragma once
// FrozenReplica gives another thread access to the version that an engine holds at this moment,
// while the engine's thread continues. Nothing is copied while nothing changes: the reader takes
// the bytes from the live arrays, and thaw() copies only what the reader has not read yet.
//
// Threads: the engine's thread constructs it and calls thaw() BEFORE anything changes or ends the
// replica (an update or a part of one, hold(), install(), init_replica(), the end of the engine).
// One other thread, the reader, calls read(). Local steps and evaluations only read the replica and
// do not need thaw(). Any thread may call give_up(). thaw() waits at most for one read() that is in
// progress.
//
// Memory: the contexts are copied immediately, since they are small. thaw() allocates memory for
// the arrays that have not been read to their end.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/optim/replica.h"
#include "proto/base/result.h"

namespace es::gpu {

// Memory for copies that is kept from one copy to the next, because a copy into memory that is new
// to the process takes two to five times as long. Thread-safe.
class CopyMemory {
 public:
  // Keeps at most `kept` arrays.
  explicit CopyMemory(std::size_t kept) : kept_(kept) {}
  // The contents are undefined. Throws NoMemory.
  AlignedBuffer take(std::int64_t floats);
  void give_back(AlignedBuffer array);

 private:
  const std::size_t kept_;
  std::mutex mutex_;
  std::vector<AlignedBuffer> spare_;
};

class FrozenReplica {
 public:
  // `live` must neither move nor change until thaw() or give_up() has returned. `memory` supplies
  // the arrays for thaw(); if it is nullptr, thaw() allocates new memory.
  // The array of parameters is its first `kept_floats` floats (Engine::kept_floats()).
  FrozenReplica(const Replica& live, std::int64_t kept_floats,
                std::shared_ptr<CopyMemory> memory = nullptr);
  ~FrozenReplica();
  FrozenReplica(const FrozenReplica&) = delete;
  FrozenReplica& operator=(const FrozenReplica&) = delete;

  // --- Constant.
  Version version() const { return version_; }
  const std::vector<EstContext>& contexts() const { return contexts_; }
  std::size_t arrays() const { return arrays_.size(); }  // params, then the moments
  std::uint64_t bytes(std::size_t array) const { return arrays_[array].bytes; }
  // What the replica holds of an array (HeldArray::held()).
  const std::vector<FloatRange>& held(std::size_t array) const { return arrays_[array].held; }

  // Copies the bytes [offset, offset + out.size()) of an array, as they were when this object was
  // constructed. REQUIRES: the calls take the arrays in order, and all that is held of each array
  // from its beginning to its end without a gap; each call takes bytes of one held range. Error
  // (failure): the copy was given up, or thaw() found no memory.
  Status read(std::size_t array, std::uint64_t offset, std::span<std::byte> out);

  // Copies what is still to be read. Afterwards `live` may change and end. If there is not enough
  // memory for the copy, it is given up, and only read() reports it.
  void thaw();

  // Declares that nothing more will be read: read() returns this error and thaw() copies nothing.
  void give_up(const std::string& why);

 private:
  struct Array {
    std::uint64_t bytes = 0;
    std::vector<FloatRange> held;
    std::uint64_t held_bytes = 0;
  };
  void add(const float* live, std::int64_t floats, std::vector<FloatRange> held);
  void copy_rest();
  void copy_array(std::size_t array, std::uint64_t read);
  void drop_copies();

  // These members are constant.
  Version version_;
  std::vector<EstContext> contexts_;
  std::vector<Array> arrays_;
  std::shared_ptr<CopyMemory> memory_;

  std::mutex mutex_;                // protects all members below
  std::vector<const float*> live_;  // the live arrays; empty after thaw()
  // After thaw(): for each array a copy of the part that was not read before. Held ranges follow
  // each other there without gaps.
  std::vector<AlignedBuffer> copies_;
  std::size_t array_ = 0;   // the array of the next read()
  std::uint64_t read_ = 0;  // how many of its held bytes were read
  std::optional<Error> given_up_;
};

}  // namespace es::gpu
