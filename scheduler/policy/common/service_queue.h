#pragma once
// ServiceQueue contains entries in the order of service, in blocks. Each block has a summary by
// which a walk can pass it as a whole.
//
// To insert, erase or find an entry costs a search among the blocks and a shift inside of one. A
// walk costs the number of blocks, and the entries of the blocks that cannot be passed. Not
// thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/policy/common/cluster_table.h"
#include "scheduler/policy/common/queue_entry.h"

namespace es::scheduler {

class ServiceQueue {
 public:
  struct Block {
    std::vector<QueueEntry> entries;     // ascending, never empty
    Counts reassignable;                 // devices held by entries with is_reassignable(), by type
    std::uint64_t improvable_types = 0;  // union of the entries' bits
    std::uint32_t preemptible = 0;       // number of entries with is_preemptible()
  };

  void clear(std::size_t types);
  // `held` contains what the job holds, by type. REQUIRES: no other entry has this slot.
  void insert(const QueueEntry& entry, std::span<const std::uint32_t> held);
  // REQUIRES: this entry was inserted with the same values.
  void erase(const QueueEntry& entry);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::size_t size() const { return size_; }
  // Number of entries with a smaller rank.
  std::size_t count_before(std::int64_t rank) const;
  // The entries at the positions `from` to `to` - 1 of the order. REQUIRES: from <= to <= size().
  std::vector<QueueEntry> entries(std::size_t from, std::size_t to) const;

 private:
  std::size_t block_of(const QueueEntry& entry) const;
  void add_to_summary(Block& block, const QueueEntry& entry, int sign) const;
  void split(std::size_t index);
  void join_next(std::size_t index);

  std::size_t types_ = 0;
  std::size_t size_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> held_;  // by slot and type
};

}  // namespace es::scheduler
