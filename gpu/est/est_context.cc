#include "gpu/est/est_context.h"

#include <algorithm>
#include <bit>
#include <string>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The statistics are copied in their representation in memory, which must be little endian.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kMagic = 0x58435345;  // "ESCX"
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeaderBytes = 4 * 4 + 3 * 8;

// Words are written byte by byte, lowest byte first. So the encoding, which is part of the state
// digest, contains no padding of a struct and has one form only.
template <class Word>
void put(std::vector<std::byte>& out, Word value) {
  for (std::size_t i = 0; i < sizeof(Word); ++i)
    out.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
}

// Reads little-endian words from the front. The caller has checked the length.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class Word>
  Word take() {
    ES_CHECK(bytes_.size() >= sizeof(Word));
    Word value = 0;
    for (std::size_t i = 0; i < sizeof(Word); ++i) value |= static_cast<Word>(bytes_[i]) << (8 * i);
    bytes_ = bytes_.subspan(sizeof(Word));
    return value;
  }
  void copy(std::span<std::byte> out) {
    ES_CHECK(bytes_.size() >= out.size());
    std::copy_n(bytes_.begin(), out.size(), out.begin());
    bytes_ = bytes_.subspan(out.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

Error bad(const std::string& what, std::uint64_t value, const std::string& allowed) {
  return failure("EST context: " + what + " = " + std::to_string(value) + ": allowed is " +
                 allowed);
}

}  // namespace

bool EstContext::operator==(const EstContext& other) const {
  return rank == other.rank && version == other.version && cursor == other.cursor &&
         std::ranges::equal(std::as_bytes(std::span(stats)), std::as_bytes(std::span(other.stats)));
}

SamplerCursor advance(SamplerCursor cursor, std::uint64_t steps_per_epoch) {
  ES_CHECK(steps_per_epoch > 0);
  if (cursor.step + 1 < steps_per_epoch) return {cursor.epoch, cursor.step + 1};
  return {cursor.epoch + 1, 0};
}

std::vector<std::byte> encode(const EstContext& context) {
  std::vector<std::byte> out;
  out.reserve(kHeaderBytes + 4 * context.stats.size());
  put(out, kMagic);
  put(out, kFormat);
  put(out, std::uint32_t{context.rank});
  put(out, static_cast<std::uint32_t>(context.stats.size()));
  put(out, std::uint64_t{context.version});
  put(out, context.cursor.epoch);
  put(out, context.cursor.step);
  const auto stats = std::as_bytes(std::span(context.stats));
  out.insert(out.end(), stats.begin(), stats.end());
  return out;
}

Result<EstContext> decode_context(std::span<const std::byte> bytes, std::int64_t stat_floats) {
  const std::size_t expected = kHeaderBytes + 4 * static_cast<std::size_t>(stat_floats);
  // The length is checked before anything is read. The checks of Reader stop the program, and bytes
  // from a file or a message must not be able to do that.
  if (bytes.size() != expected)
    return bad("length", bytes.size(), std::to_string(expected) + " bytes for this model");
  Reader in(bytes);
  if (const auto magic = in.take<std::uint32_t>(); magic != kMagic)
    return bad("magic", magic, std::to_string(kMagic));
  if (const auto format = in.take<std::uint32_t>(); format != kFormat)
    return bad("format", format, std::to_string(kFormat));
  EstContext context;
  context.rank = in.take<std::uint32_t>();
  if (const auto count = in.take<std::uint32_t>(); count != stat_floats)
    return bad("count", count, std::to_string(stat_floats) + " statistics for this model");
  // Every bit pattern of a statistic is accepted here. Engine::install() checks that the statistics
  // of a replica are finite.
  context.version = in.take<std::uint64_t>();
  context.cursor.epoch = in.take<std::uint64_t>();
  context.cursor.step = in.take<std::uint64_t>();
  context.stats.resize(static_cast<std::size_t>(stat_floats));
  in.copy(std::as_writable_bytes(std::span(context.stats)));
  return context;
}

}  // namespace es::gpu
