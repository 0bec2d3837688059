#pragma once
// FrozenReplica: the version that an engine holds at this moment, to be read by another thread
// while the engine's goes on. Nothing is copied as long as nothing changes: the reader takes the
// bytes from the live arrays, and thaw() copies only what it has not read yet.
//
// Threads: the engine's makes it and calls thaw() BEFORE anything changes the replica or ends it
// (apply_update, install, init_replica, the engine's own end); one other thread, the reader, calls
// read(). Local steps and evaluation only read the replica and need no thaw(). give_up() may be
// called by either, and by any third. thaw() waits at most for one read() that is in progress.
// Memory: contexts are copied at once, they are small. thaw() takes memory for the arrays that are
// not read to the end.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/replica.h"
#include "proto/base/result.h"

namespace es::gpu {

// Memory for copies that is kept from one to the next: a copy into memory that is new to the
// process takes two to five times as long. Thread-safe.
class CopyMemory {
 public:
  // Keeps at most `kept` arrays.
  explicit CopyMemory(std::size_t kept) : kept_(kept) {}
  // With any contents. Throws NoMemory.
  AlignedBuffer take(std::int64_t floats);
  void give_back(AlignedBuffer array);

 private:
  const std::size_t kept_;
  std::mutex mutex_;
  std::vector<AlignedBuffer> spare_;
};

class FrozenReplica {
 public:
  // `live` must stay where it is and as it is until thaw() or give_up() has returned. `memory`: for
  // thaw(); without, it takes new memory.
  explicit FrozenReplica(const Replica& live, std::shared_ptr<CopyMemory> memory = nullptr);
  ~FrozenReplica();
  FrozenReplica(const FrozenReplica&) = delete;
  FrozenReplica& operator=(const FrozenReplica&) = delete;

  // Constant.
  Version version() const { return version_; }
  const std::vector<EstContext>& contexts() const { return contexts_; }
  std::size_t arrays() const { return sizes_.size(); }  // params, then the moments
  std::uint64_t bytes(std::size_t array) const { return sizes_[array]; }

  // The bytes [offset, offset + out.size()) of an array, as they were when this was made.
  // REQUIRES: calls take the arrays in order and each from its beginning to its end without a gap.
  // Error (failure): given up; thaw() found no memory.
  Status read(std::size_t array, std::uint64_t offset, std::span<std::byte> out);

  // Afterwards `live` may change and end: what is still to be read has been copied. Without memory
  // for that it is given up, and only the reader learns of it.
  void thaw();

  // Nothing more will be read: read() returns this error, thaw() copies nothing.
  void give_up(const std::string& why);

 private:
  const std::byte* source(std::size_t array, std::uint64_t offset) const;
  void copy_rest();
  void drop_copies();

  // Constant.
  Version version_;
  std::vector<EstContext> contexts_;
  std::vector<std::uint64_t> sizes_;  // bytes by array
  std::shared_ptr<CopyMemory> memory_;

  std::mutex mutex_;                   // of all below
  std::vector<const float*> live_;     // arrays; empty: thawed
  std::vector<AlignedBuffer> copies_;  // by array, once thawed: from where it is not read
  std::size_t array_ = 0;              // where the next read() begins
  std::uint64_t offset_ = 0;
  std::optional<Error> given_up_;
};

}  // namespace es::gpu
