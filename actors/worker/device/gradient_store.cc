#include "actors/worker/device/gradient_store.h"

#include <utility>

namespace es::actors::worker {
namespace {

std::uint64_t bytes_of(std::int64_t floats) {
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

Result<float*> allocated(const Result<Segment*>& segment) {
  if (!segment) return segment.error();
  ES_RETURN_IF_ERROR((*segment)->allocate());
  return reinterpret_cast<float*>((*segment)->data());
}

}  // namespace

// A segment is made once for each generation and used again in every step.
Result<Segment*> GradientStore::reserve(std::map<std::uint32_t, std::unique_ptr<Segment>>& segments,
                                        std::uint32_t index, const char* part,
                                        std::int64_t floats) {
  auto at = segments.find(index);
  if (at == segments.end()) {
    auto made = Segment::reserve(
        segment_label(job_, incarnation_, generation_, part + std::to_string(index)),
        bytes_of(floats));
    if (!made) return made.error();
    at = segments.emplace(index, *std::move(made)).first;
  }
  return at->second.get();
}

Result<float*> GradientStore::slot(std::uint32_t slot) {
  return allocated(reserve(slots_, slot, "grad.", trained_floats_));
}

Result<float*> GradientStore::reserved_slot(std::uint32_t slot) {
  const Result<Segment*> segment = reserve(slots_, slot, "grad.", trained_floats_);
  if (!segment) return segment.error();
  return reinterpret_cast<float*>((*segment)->data());
}

void GradientStore::release(std::uint32_t slot, std::int64_t begin, std::int64_t floats) {
  slots_.at(slot)->release(bytes_of(begin), bytes_of(floats));
}

std::uint64_t GradientStore::slot_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [slot, segment] : slots_) bytes += segment->resident_bytes();
  return bytes;
}

Status GradientStore::take_slots(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t wanted : slots)
    if (const Result<float*> taken = slot(wanted); !taken) return taken.error();
  return {};
}

void GradientStore::take_device_slots(std::span<const std::uint32_t> slots,
                                      gpu::cuda::DevicePool& pool, bool host_copies) {
  host_copies_ = host_copies;
  const std::uint64_t bytes = bytes_of(trained_floats_);
  for (const std::uint32_t slot : slots) {
    if (device_slots_.contains(slot)) continue;
    // The remaining slots stay in host memory. A slot may be in either place, because the bits do
    // not depend on it.
    if ((device_slots_.size() + 1) * bytes > pool.capacity() / 2) return;
    auto block = pool.take(bytes);
    if (!block) return;
    device_slots_.emplace(slot, std::move(block));
  }
}

float* GradientStore::device_slot(std::uint32_t slot) const {
  const auto at = device_slots_.find(slot);
  return at == device_slots_.end() ? nullptr : reinterpret_cast<float*>(at->second.get());
}

bool GradientStore::in_host(std::uint32_t slot) const {
  return host_copies_ || !device_slots_.contains(slot);
}

Result<float*> GradientStore::sum(std::uint32_t bucket, std::int64_t floats) {
  return allocated(reserve(sums_, bucket, "sum.", floats));
}

protocol::Bulk GradientStore::slot_bulk(std::uint32_t slot, std::int64_t begin,
                                        std::int64_t floats) const {
  protocol::Bulk bulk{slots_.at(slot)->address(), bytes_of(begin), bytes_of(floats), nullptr};
  bulk.in_host = in_host(slot);
  if (const auto at = device_slots_.find(slot); at != device_slots_.end())
    bulk.device = {at->second, at->second.get() + bytes_of(begin)};
  return bulk;
}

protocol::Bulk GradientStore::sum_bulk(std::uint32_t bucket) const {
  const Segment& segment = *sums_.at(bucket);
  return {segment.address(), 0, segment.bytes(), nullptr};
}

float* GradientStore::own_on_device(const protocol::Bulk& bulk) const {
  for (const auto& [slot, block] : device_slots_)
    if (slots_.at(slot)->address() == bulk.segment)
      return reinterpret_cast<float*>(block.get() + bulk.offset);
  return nullptr;
}

float* GradientStore::own(const protocol::Bulk& bulk) const {
  for (const auto* segments : {&slots_, &sums_})
    for (const auto& [index, segment] : *segments) {
      // The check is written without a sum of offset and bytes, which could overflow for a wrong
      // message.
      const bool inside = segment->address() == bulk.segment && bulk.offset <= segment->bytes() &&
                          bulk.bytes <= segment->bytes() - bulk.offset;
      if (inside) return reinterpret_cast<float*>(segment->data() + bulk.offset);
    }
  return nullptr;
}

}  // namespace es::actors::worker
