#include "store/dataset/arrays/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::string_view kNpyMark = "\x93NUMPY";
constexpr std::uint64_t kNpyBytesMax = std::uint64_t{1} << 48;
constexpr std::size_t kNpyAxesMax = 32;

struct NpyTypeRow {
  NpyType type;
  const char* descr;  // in the file
  const char* name;
  std::size_t bytes;
};
constexpr NpyTypeRow kNpyTypes[] = {
    {NpyType::kF32, "<f4", "f4", 4}, {NpyType::kF64, "<f8", "f8", 8},
    {NpyType::kI32, "<i4", "i4", 4}, {NpyType::kI64, "<i8", "i8", 8},
    {NpyType::kU8, "|u1", "u1", 1},  {NpyType::kU16, "<u2", "u2", 2},
    {NpyType::kU32, "<u4", "u4", 4}, {NpyType::kBool, "|b1", "b1", 1}};

const NpyTypeRow& row_of(NpyType type) {
  return kNpyTypes[static_cast<std::size_t>(type)];
}

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } with any order of the keys.
class NpyLiteral {
 public:
  explicit NpyLiteral(std::string_view text) : rest_(text) {}

  // Returns false if the text is anything else.
  bool read() {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string_view key;
      if (!read_text(key) || !take(':') || !read_value(key)) return false;
      // A comma after the last item is allowed, as Python writes one.
      if (!take(',') && peek() != '}') return false;
    }
    skip_spaces();
    return rest_.empty() && has_descr_ && has_order_ && has_shape_;
  }

  std::string_view descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;

 private:
  bool read_value(std::string_view key) {
    // A key that occurs twice is refused.
    if (key == "descr") return !std::exchange(has_descr_, true) && read_text(descr);
    if (key == "fortran_order") return !std::exchange(has_order_, true) && read_flag();
    return key == "shape" && !std::exchange(has_shape_, true) && read_shape();
  }

  bool read_flag() {
    skip_spaces();
    fortran_order = rest_.starts_with("True");
    if (!fortran_order && !rest_.starts_with("False")) return false;
    rest_.remove_prefix(fortran_order ? 4 : 5);
    return true;
  }

  bool read_shape() {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      std::uint64_t extent = 0;
      const auto [end, code] = std::from_chars(rest_.begin(), rest_.end(), extent);
      if (code != std::errc() || shape.size() == kNpyAxesMax) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.begin()));
      shape.push_back(extent);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  bool read_text(std::string_view& text) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return false;
    text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }

  void skip_spaces() {
    const std::size_t first = rest_.find_first_not_of(" \n\t");
    rest_.remove_prefix(std::min(first, rest_.size()));
  }
  char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char c) {
    if (peek() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

// Returns the end of the literal, or 0 if it is not in `bytes`; `begin` is its beginning.
std::size_t literal_end(std::string_view bytes, std::size_t& begin) {
  const std::size_t length_bytes = bytes[kNpyMark.size()] == 1 ? 2 : 4;
  begin = kNpyMark.size() + 2 + length_bytes;
  if (bytes.size() < begin) return 0;
  std::size_t length = 0;
  // The length is little endian: 2 bytes in version 1, and 4 bytes later.
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[begin - length_bytes + i]);
  // The length comes from the file and may be larger than it.
  return length <= std::min(bytes.size() - begin, kNpyLiteralMax) ? begin + length : 0;
}

Error no_npy(const std::string& where) {
  return bad_content(where, "its header",
                     "a NumPy file (.npy) of version 1, 2 or 3, as numpy.save writes it");
}

template <class T>
std::int64_t integer_as(std::span<const std::uint8_t> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool is_bounded(const NpyHeader& header) {
  std::uint64_t bytes = npy_bytes(header.type);
  for (const std::uint64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kNpyBytesMax) return false;
  return true;
}

}  // namespace

std::uint64_t NpyHeader::bytes() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{npy_bytes(type)},
                         std::multiplies<>());
}

std::uint64_t NpyHeader::row_bytes() const {
  return std::accumulate(shape.begin() + 1, shape.end(), std::uint64_t{npy_bytes(type)},
                         std::multiplies<>());
}

std::size_t npy_bytes(NpyType type) {
  return row_of(type).bytes;
}

const char* npy_name(NpyType type) {
  return row_of(type).name;
}

std::int64_t npy_integer(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index) {
  switch (type) {
    case NpyType::kI32:
      return integer_as<std::int32_t>(bytes, index);
    case NpyType::kI64:
      return integer_as<std::int64_t>(bytes, index);
    case NpyType::kU16:
      return integer_as<std::uint16_t>(bytes, index);
    case NpyType::kU32:
      return integer_as<std::uint32_t>(bytes, index);
    default:
      return bytes[index];
  }
}

Result<NpyHeader> read_npy_header(std::string_view bytes, const std::string& where) {
  if (bytes.size() < kNpyMark.size() + 2 || !bytes.starts_with(kNpyMark)) return no_npy(where);
  const char version = bytes[kNpyMark.size()];
  if (version < 1 || version > 3) return no_npy(where);
  std::size_t begin = 0;
  const std::size_t end = literal_end(bytes, begin);
  if (end == 0) return no_npy(where);
  NpyLiteral literal(bytes.substr(begin, end - begin));
  if (!literal.read()) return no_npy(where);
  const auto* const type = std::ranges::find_if(
      kNpyTypes, [&](const NpyTypeRow& row) { return literal.descr == row.descr; });
  if (type == std::end(kNpyTypes))
    return bad_content(where, "the type of its elements",
                       "f4, f8, i4, i8, u2, u4 (little endian), u1 or bool");
  if (literal.fortran_order)
    return bad_content(where, "the order of its elements", "C order (numpy.ascontiguousarray)");
  NpyHeader header{.type = type->type, .shape = std::move(literal.shape), .data_at = end};
  if (header.shape.empty() || !is_bounded(header))
    return bad_content(where, "its shape",
                       "one axis or more, the first one for samples, and at "
                       "most 2^48 bytes");
  return header;
}

}  // namespace es::store
