#pragma once
// A sequence of random words, for a sample whose parts need a varying number of them.
#include <array>
#include <cstdint>

#include "proto/base/philox.h"
#include "store/dataset/stream_key.h"

namespace es::store {

// The words of sample `index` under `key`. Not thread-safe.
class WordStream {
 public:
  WordStream(std::uint64_t index, PhiloxKey key) : index_(index), key_(key) {}

  std::uint32_t next() {
    if (used_ == words_.size()) {
      words_ = philox4x32_10(index_counter(index_, block_++), key_);
      used_ = 0;
    }
    return words_[used_++];
  }
  // A number in [0, bound). REQUIRES: bound > 0.
  std::uint32_t next_below(std::uint32_t bound) { return below(bound, next()); }

 private:
  std::uint64_t index_;
  PhiloxKey key_;
  std::uint32_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace es::store
