#include "gpu/engine/frozen_replica.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::uint64_t byte_of(std::int64_t at) {
  return static_cast<std::uint64_t>(at) * sizeof(float);
}

std::uint64_t bytes_of(const FloatRange& range) {
  return byte_of(range.floats());
}

// How many held bytes lie before this byte of an array.
std::uint64_t held_before(std::span<const FloatRange> held, std::uint64_t offset) {
  std::uint64_t bytes = 0;
  for (const FloatRange& range : held)
    if (byte_of(range.begin) < offset)
      bytes += std::min(offset - byte_of(range.begin), bytes_of(range));
  return bytes;
}

bool within_one(std::span<const FloatRange> held, std::uint64_t offset, std::uint64_t bytes) {
  return std::ranges::any_of(held, [&](const FloatRange& range) {
    return byte_of(range.begin) <= offset && offset + bytes <= byte_of(range.end);
  });
}

}  // namespace

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
  add(live.params.data(), kept_floats, {{0, kept_floats}});
  for (const HeldArray& moment : live.moments) add(moment.data(), moment.floats(), moment.held());
}

void FrozenReplica::add(const float* live, std::int64_t floats, std::vector<FloatRange> held) {
  const std::uint64_t bytes = byte_of(floats);
  const std::uint64_t held_bytes = held_before(held, bytes);
  arrays_.push_back({bytes, std::move(held), held_bytes});
  live_.push_back(live);
}

FrozenReplica::~FrozenReplica() {
  drop_copies();
}

Status FrozenReplica::read(std::size_t array, std::uint64_t offset, std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  if (given_up_) return *given_up_;
  // The reader has finished one array and begins the next one.
  while (array > array_ && read_ == arrays_[array_].held_bytes) {
    ++array_;
    read_ = 0;
  }
  if (out.empty()) return {};
  const std::vector<FloatRange>& held = arrays_[array].held;
  ES_CHECK(array == array_ && held_before(held, offset) == read_ &&
           within_one(held, offset, out.size()));
  // thaw() clears `live_` after it has copied what the reader still needs.
  const auto* const from = live_.empty()
                               ? reinterpret_cast<const std::byte*>(copies_[array].data()) + read_
                               : reinterpret_cast<const std::byte*>(live_[array]) + offset;
  std::memcpy(out.data(), from, out.size());
  read_ += out.size();
  return {};
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
  copies_.resize(arrays_.size());
  for (std::size_t array = array_; array < arrays_.size(); ++array) {
    // Only the bytes that the reader has not read yet are copied.
    const std::uint64_t read = array == array_ ? read_ : 0;
    const std::uint64_t all = arrays_[array].held_bytes;
    if (read == all) continue;
    copies_[array] = memory_->take(static_cast<std::int64_t>(all / sizeof(float)));
    copy_array(array, read);
  }
}

void FrozenReplica::copy_array(std::size_t array, std::uint64_t read) {
  const auto* const from = reinterpret_cast<const std::byte*>(live_[array]);
  auto* const to = reinterpret_cast<std::byte*>(copies_[array].data());
  std::uint64_t before = 0;  // held bytes before the range
  for (const FloatRange& range : arrays_[array].held) {
    const std::uint64_t bytes = bytes_of(range), done = read < before ? 0 : read - before;
    if (done < bytes)
      std::memcpy(to + before + done, from + byte_of(range.begin) + done, bytes - done);
    before += bytes;
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
