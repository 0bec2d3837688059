#include "gpu/cuda/host_shared.h"

#include <cstring>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu::cuda::on_host {
namespace {

constexpr std::size_t kUnit = 16;  // bytes

bool in_units(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kUnit == 0;
}

}  // namespace

HostShared::HostShared(const void* memory, std::size_t bytes, unsigned threads, bool at_once)
    : memory_(static_cast<const std::uint8_t*>(memory)),
      bytes_(bytes),
      at_once_(at_once),
      copies_(threads),
      readable_((bytes + kUnit - 1) / kUnit) {}

std::uint32_t HostShared::address(const void* shared) const {
  const auto offset = static_cast<const std::uint8_t*>(shared) - memory_;
  ES_CHECK_MSG(offset >= 0 && static_cast<std::size_t>(offset) < bytes_,
               "an address that is not in shared memory");
  return static_cast<std::uint32_t>(offset);
}

const std::uint8_t* HostShared::read(std::uint32_t address) const {
  ES_CHECK_MSG(address + kUnit <= bytes_, "a matrix beyond shared memory");
  ES_CHECK_MSG(readable_[address / kUnit], "a product reads what no copy has brought");
  return memory_ + address;
}

HostShared::Copy HostShared::checked(void* to, const void* from, std::size_t bytes) const {
  ES_CHECK_MSG(in_units(to) && in_units(from) && bytes % kUnit == 0, "a misaligned copy");
  ES_CHECK_MSG(address(to) + bytes <= bytes_, "a copy beyond shared memory");
  return {to, from, bytes};
}

void HostShared::make(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
}

void HostShared::copy(unsigned thread, void* to, const void* from, std::size_t bytes) {
  copies_[thread].open.push_back(checked(to, from, bytes));
  if (at_once_) make(copies_[thread].open.back());
}

void HostShared::end_copies(unsigned thread) {
  Copies& mine = copies_[thread];
  mine.groups.push_back(std::exchange(mine.open, {}));
}

void HostShared::await_copies(unsigned thread, std::size_t newest) {
  auto& groups = copies_[thread].groups;
  while (groups.size() > newest) {
    if (!at_once_)
      for (const Copy& copy : groups.front()) make(copy);
    groups.erase(groups.begin());
  }
}

void HostShared::init(const Barrier& barrier, std::uint32_t arrivals) {
  address(&barrier);
  const bool is_new =
      barriers_.emplace(&barrier, Phases{.arrivals = arrivals, .missing = arrivals, .copies = {}})
          .second;
  ES_CHECK_MSG(is_new && arrivals > 0, "a barrier that begins twice, or without arrivals");
}

void HostShared::publish_barriers() {
  for (auto& [barrier, phases] : barriers_) phases.published = true;
}

HostShared::Phases& HostShared::at(const Barrier& barrier) {
  const auto found = barriers_.find(&barrier);
  ES_CHECK_MSG(found != barriers_.end(), "a barrier that does not exist yet");
  return found->second;
}

void HostShared::arrive(const Barrier& barrier) {
  expect(barrier, 0);
}

void HostShared::expect(const Barrier& barrier, std::uint32_t bytes) {
  Phases& phases = at(barrier);
  end_if_complete(phases);
  ES_CHECK_MSG(phases.missing > 0, "more arrivals than a barrier expects");
  --phases.missing;
  phases.expected += bytes;
}

void HostShared::copy(void* to, const void* from, std::uint32_t bytes, const Barrier& barrier) {
  Phases& phases = at(barrier);
  ES_CHECK_MSG(phases.published, "a copy to a barrier that is not published");
  phases.copies.push_back(checked(to, from, bytes));
  phases.copied += bytes;
  if (at_once_) make(phases.copies.back());
}

void HostShared::end_if_complete(Phases& phases) {
  if (phases.missing > 0 || phases.expected != phases.copied) return;
  for (const Copy& copy : phases.copies) {
    if (!at_once_) make(copy);
    for (std::size_t i = 0; i < copy.bytes; i += kUnit)
      readable_[(address(copy.to) + i) / kUnit] = true;
  }
  phases.copies.clear();
  phases.missing = phases.arrivals;
  phases.expected = phases.copied = 0;
  phases.parity ^= 1;
}

bool HostShared::ended(const Barrier& barrier, unsigned parity) {
  Phases& phases = at(barrier);
  end_if_complete(phases);
  return phases.parity != parity;
}

void HostShared::check_end() const {
  for (const Copies& copies : copies_)
    ES_CHECK_MSG(copies.open.empty() && copies.groups.empty(), "a copy that nobody awaits");
  for (const auto& [barrier, phases] : barriers_)
    ES_CHECK_MSG(phases.copies.empty(), "a copy that nobody awaits");
}

}  // namespace es::gpu::cuda::on_host
