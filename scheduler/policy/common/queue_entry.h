#pragma once
// QueueEntry is the place of one job in an order of service: what the order is sorted by, and the
// few facts about the job that a walk through the order needs. Values; thread-safe.
#include <bit>
#include <cstdint>
#include <limits>

namespace es::scheduler {

// Classes of service, in the order of service (policy/elastic_srtf/elastic_srtf.h).
enum class ServiceClass : std::uint8_t { kUrgent, kAged, kCritical, kOrdinary };

struct QueueEntry {
  std::int64_t rank = 0;     // priority and class combined; smaller first
  std::int64_t key = 0;      // order within the class; smaller first
  std::uint64_t number = 0;  // submit order
  // Bit t is set if devices of type t may improve the job: it may be given something other than
  // what it holds. If it is not set, these devices surely make no difference (type_bit()). Only
  // an index writes it.
  std::uint64_t improvable_types = 0;
  std::uint32_t slot = 0;
  bool pinned = false;
  bool keeps_minimum = false;  // may not be suspended, and holds devices
  bool holds = false;          // holds some devices
  bool paused = false;         // holds devices and makes no progress because they are changing
  bool at_optimum = false;     // no devices of the cluster are faster than those that it holds

  ServiceClass service_class() const { return static_cast<ServiceClass>(rank & 7); }
  std::int64_t priority_rank() const { return rank >> 3; }  // smaller for higher priority
  static std::int64_t rank_of(std::int64_t priority_rank, ServiceClass service_class) {
    return priority_rank * 8 + static_cast<std::int64_t>(service_class);
  }
  // What it holds is distributed anew when its turn comes.
  bool is_reassignable() const { return holds && !pinned && !paused && !keeps_minimum; }
  // It may be left with fewer devices or none.
  bool is_preemptible() const { return holds && !pinned && !paused; }
  bool operator<(const QueueEntry& o) const {
    if (rank != o.rank) return rank < o.rank;
    if (key != o.key) return key < o.key;
    return number < o.number;
  }
  bool operator==(const QueueEntry&) const = default;
};

// Maps a number to an integer that ascends with it, also for negative numbers.
inline std::int64_t sortable_bits(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  return bits >= 0 ? bits : std::numeric_limits<std::int64_t>::min() - bits;
}

// The bit of a device type in QueueEntry::improvable_types. Types from the 64th on share a bit.
inline std::uint64_t type_bit(std::size_t type) {
  return std::uint64_t{1} << (type < 63 ? type : 63);
}

}  // namespace es::scheduler
