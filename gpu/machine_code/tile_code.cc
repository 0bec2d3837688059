#include "gpu/machine_code/tile_code.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "gpu/machine_code/compiler.h"

namespace es::gpu {
namespace {

// Below this number of elements the search in the map takes a noticeable part of the time.
constexpr std::int64_t kWorthSearching = 2048;

// A program without its constants.
class Structure {
 public:
  Structure(const ElementCode& code, CpuClass cpu_class) : class_(cpu_class), code_(code) {}

  // Any order; equal exactly if the machine code is the same.
  bool operator<(const Structure& other) const {
    if (class_ != other.class_) return class_ < other.class_;
    const auto steps = instructions(), others = other.instructions();
    if (!std::ranges::equal(steps, others))
      return std::ranges::lexicographical_compare(steps, others, &before);
    return std::ranges::lexicographical_compare(results(), other.results());
  }

 private:
  static bool before(const Instruction& x, const Instruction& y) {
    const auto words = [](const Instruction& s) {
      return std::array{static_cast<std::uint8_t>(s.op), s.to, s.a, s.b, s.c, s.d};
    };
    return words(x) < words(y);
  }
  std::span<const Instruction> instructions() const {
    return std::span(code_.instruction).first(static_cast<std::size_t>(code_.instructions));
  }
  std::span<const std::uint8_t> results() const {
    return std::span(code_.result).first(static_cast<std::size_t>(code_.outputs));
  }

  CpuClass class_;
  ElementCode code_;
};

class Compiled {
 public:
  TileCode get(const ElementCode& code, CpuClass cpu_class) {
    const Structure structure(code, cpu_class);
    {
      const std::shared_lock lock(mutex_);
      const auto found = codes_.find(structure);
      if (found != codes_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    const auto [place, is_new] = codes_.try_emplace(structure, nullptr);
    if (is_new) place->second = compile_tile(code, cpu_class);
    return place->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<Structure, TileCode> codes_;
};

}  // namespace

TileCode tile_code(const ElementCode& code, CpuClass cpu_class, std::int64_t elements) {
  static Compiled compiled;
  if (elements < kWorthSearching) return nullptr;
  return compiled.get(code, cpu_class);
}

}  // namespace es::gpu
