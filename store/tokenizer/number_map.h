#pragma once
// NumberMap: from 64-bit keys to 32-bit numbers, for tables that are read once for every character
// of a text. Keys cannot be removed.
#include <cstdint>
#include <vector>

namespace es::store {

class NumberMap {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // Replaces the number of a key that is there. REQUIRES: number != kNone.
  void set(std::uint64_t key, std::uint32_t number) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(key)];
    if (slot.number == kNone) ++size_;
    slot = {key, number};
  }
  // kNone if the key is not there.
  std::uint32_t find(std::uint64_t key) const {
    return slots_.empty() ? kNone : slots_[place(key)].number;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t number = kNone;
  };

  // The slot of the key, or the free one where it belongs.
  std::size_t place(std::uint64_t key) const {
    std::size_t at = (key * 0x9e3779b97f4a7c15U) >> shift_;
    while (slots_[at].number != kNone && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    shift_ = slots_.empty() ? 60 : shift_ - 1;
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.number != kNone) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half of it used
  std::size_t size_ = 0;
  int shift_ = 64;
};

// ByteTrie: a set of byte strings with a number each, followed byte by byte.
class ByteTrie {
 public:
  static constexpr std::uint32_t kNone = NumberMap::kNone;
  static constexpr std::uint32_t kRoot = 0;

  // REQUIRES: number != kNone. A string that is there gets the new number.
  template <class Text>
  void add(const Text& text, std::uint32_t number) {
    std::uint32_t node = kRoot;
    for (const char c : text) {
      std::uint32_t next = step(node, c);
      if (next == kNone) {
        next = static_cast<std::uint32_t>(numbers_.size());
        numbers_.push_back(kNone);
        children_.set(key(node, c), next);
      }
      node = next;
    }
    numbers_[node] = number;
  }
  // The node behind a byte; kNone if no string goes on with it.
  std::uint32_t step(std::uint32_t node, char c) const { return children_.find(key(node, c)); }
  // The number of the string that ends here; kNone if none does.
  std::uint32_t number(std::uint32_t node) const { return numbers_[node]; }

 private:
  static std::uint64_t key(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }

  NumberMap children_;
  std::vector<std::uint32_t> numbers_{kNone};
};

}  // namespace es::store
