#include "gpu/engine/frozen_replica.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu {

AlignedBuffer CopyMemory::take(std::int64_t floats) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const AlignedBuffer& array) { return array.floats() == floats; };
    const auto found = std::find_if(spare_.begin(), spare_.end(), fits);
    if (found != spare_.end()) {
      AlignedBuffer array = std::move(*found);
      spare_.erase(found);
      return array;
    }
  }
  // The lock is free here, because an allocation of this size takes long. The array is not cleared,
  // because all of it is overwritten or never read.
  return AlignedBuffer::uninitialised(floats, "a copy of the version");
}

void CopyMemory::give_back(AlignedBuffer array) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() < kept_) spare_.push_back(std::move(array));
}

FrozenReplica::FrozenReplica(const Replica& live, std::int64_t kept_floats,
                             std::shared_ptr<CopyMemory> memory)
    : version_(live.version),
      contexts_(live.contexts),
      memory_(memory ? std::move(memory) : std::make_shared<CopyMemory>(0)) {
  const auto add = [this](const AlignedBuffer& array, std::int64_t floats) {
    sizes_.push_back(static_cast<std::uint64_t>(floats) * sizeof(float));
    live_.push_back(array.data());
  };
  add(live.params, kept_floats);
  for (const AlignedBuffer& moment : live.moments) add(moment, moment.floats());
}

FrozenReplica::~FrozenReplica() {
  drop_copies();
}

Status FrozenReplica::read(std::size_t array, std::uint64_t offset, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  if (given_up_) return *given_up_;
  // The reader has finished one array and begins the next one.
  if (array == array_ + 1 && offset_ == sizes_[array_]) {
    ++array_;
    offset_ = 0;
  }
  ES_CHECK(array == array_ && offset == offset_ && out.size() <= sizes_[array] - offset);
  if (!out.empty()) std::memcpy(out.data(), source(array, offset), out.size());
  offset_ += out.size();
  return {};
}

const std::byte* FrozenReplica::source(std::size_t array, std::uint64_t offset) const {
  // thaw() clears `live_` after it has copied what the reader still needs.
  const float* floats = live_.empty() ? copies_[array].data() : live_[array];
  return reinterpret_cast<const std::byte*>(floats) + offset;
}

void FrozenReplica::thaw() {
  const std::lock_guard lock(mutex_);
  if (live_.empty()) return;
  try {
    // The lock is held during the copy, so read() continues either with the live arrays or with the
    // complete copies.
    if (!given_up_) copy_rest();
  } catch (const std::bad_alloc& missing) {
    const bool named = dynamic_cast<const NoMemory*>(&missing) != nullptr;
    // Only this reader fails. The live replica continues with its training.
    given_up_ = failure(named ? missing.what() : "not enough memory for a copy of the version");
    drop_copies();
  }
  live_.clear();
}

void FrozenReplica::copy_rest() {
  copies_.resize(sizes_.size());
  for (std::size_t array = array_; array < sizes_.size(); ++array) {
    const std::uint64_t read = array == array_ ? offset_ : 0;
    // Only the bytes that the reader has not read yet are copied; read() uses the same offsets in
    // the copy as in the live array.
    if (read == sizes_[array]) continue;
    copies_[array] = memory_->take(static_cast<std::int64_t>(sizes_[array] / sizeof(float)));
    std::memcpy(reinterpret_cast<std::byte*>(copies_[array].data()) + read, source(array, read),
                sizes_[array] - read);
  }
}

void FrozenReplica::drop_copies() {
  for (AlignedBuffer& copy : copies_)
    if (copy.floats() != 0) memory_->give_back(std::move(copy));
  copies_.clear();
}

void FrozenReplica::give_up(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!given_up_) given_up_ = failure(why);
  drop_copies();
}

}  // namespace es::gpu
