#include "store/dataset/shards/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "store/field_error.h"

namespace es::store {
namespace {

using TarHeader = std::span<const std::uint8_t>;

constexpr char kDirectory = '5';
constexpr std::uint64_t kWindowBytes = 4096;
// Of a long name or a pax header. A path has at most 4,096 bytes.
constexpr std::uint64_t kTarExtensionBytesMax = 64 << 10;

std::string_view tar_field(TarHeader header, std::size_t at, std::size_t size) {
  return {reinterpret_cast<const char*>(header.data()) + at, size};
}

// The text before the first NUL.
std::string tar_text(TarHeader header, std::size_t at, std::size_t size) {
  const std::string_view field = tar_field(header, at, size);
  return std::string(field.substr(0, field.find('\0')));
}

// A number in base 256, after the highest bit of the field. A negative number begins with ones, and
// is therefore too large.
std::optional<std::uint64_t> tar_binary(std::string_view field) {
  std::uint64_t value = static_cast<std::uint8_t>(field.front()) & 0x7fU;
  for (const char c : field.substr(1)) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | static_cast<std::uint8_t>(c);
  }
  return value;
}

// A number in octal digits, with spaces before it and spaces or NULs behind it; or in base 256.
std::optional<std::uint64_t> tar_number(TarHeader header, std::size_t at, std::size_t size) {
  std::string_view field = tar_field(header, at, size);
  if ((static_cast<std::uint8_t>(field.front()) & 0x80U) != 0) return tar_binary(field);
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  std::uint64_t value = 0;
  while (!field.empty() && field.front() >= '0' && field.front() <= '7') {
    value = value << 3 | static_cast<std::uint64_t>(field.front() - '0');
    field.remove_prefix(1);
  }
  const bool ends = field.find_first_not_of(std::string_view(" \0", 2)) == std::string_view::npos;
  return ends ? std::optional(value) : std::nullopt;
}

// The sum of all bytes of the header, with spaces in place of the checksum itself.
bool has_checksum(TarHeader header) {
  constexpr std::size_t kAt = 148, kSize = 8;
  std::uint64_t sum = kSize * ' ';
  for (std::size_t i = 0; i < header.size(); ++i)
    if (i < kAt || i >= kAt + kSize) sum += header[i];
  return tar_number(header, kAt, kSize) == sum;
}

std::string header_name(TarHeader header) {
  const std::string name = tar_text(header, 0, 100);
  // GNU tar writes "ustar " and has no prefix.
  const bool is_ustar = tar_field(header, 257, 6) == std::string_view("ustar\0", 6);
  const std::string prefix = is_ustar ? tar_text(header, 345, 155) : std::string();
  return prefix.empty() ? name : prefix + "/" + name;
}

// Where the next header is after a content, which fills whole blocks.
std::uint64_t end_of(std::uint64_t at, std::uint64_t bytes) {
  return at + (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

bool is_extension(char type) {
  return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

// The name of the compression of a file that begins like this; nullptr: it is not compressed.
const char* compression_of(TarHeader begin) {
  const auto begins = [&](std::initializer_list<std::uint8_t> mark) {
    return begin.size() >= mark.size() && std::equal(mark.begin(), mark.end(), begin.begin());
  };
  if (begins({0x1f, 0x8b})) return "gzip";
  if (begins({0x28, 0xb5, 0x2f, 0xfd})) return "zstd";
  if (begins({0xfd, '7', 'z', 'X', 'Z'})) return "xz";
  return begins({'B', 'Z', 'h'}) ? "bzip2" : nullptr;
}

}  // namespace

bool is_tar_header(std::span<const std::uint8_t> block) {
  return has_checksum(block);
}

std::string tar_place(const DataFile& file, std::uint64_t block) {
  return file.name() + ": block " + std::to_string(block);
}

Result<std::span<const std::uint8_t>> TarReader::fetch(std::uint64_t at, std::uint64_t bytes) {
  const bool is_there = at >= window_at_ && at - window_at_ <= window_.size() &&
                        bytes <= window_.size() - (at - window_at_);
  if (!is_there) {
    window_.resize(std::min(std::max(bytes, kWindowBytes), file_.bytes() - at));
    window_at_ = at;
    const Status read = file_.read(at, window_);
    if (!read.ok()) {
      window_.clear();
      return read.error();
    }
  }
  return std::span<const std::uint8_t>(window_).subspan(at - window_at_, bytes);
}

Status TarReader::check_content(std::uint64_t bytes) const {
  const std::uint64_t rest = file_.bytes() - at_ - kTarBlockBytes;
  if (bytes <= rest) return {};
  return bad_field(place(), "bytes of the member", std::to_string(bytes),
                   "at most " + std::to_string(rest) + ", the rest of the file");
}

Result<std::optional<TarReader::Header>> TarReader::read_header() {
  if (at_ == 0) {
    const auto begin = fetch(0, std::min(file_.bytes(), std::uint64_t{8}));
    if (!begin) return begin.error();
    if (const char* const compression = compression_of(*begin))
      return usage_error(file_.name() + ": the archive is compressed with " + compression +
                         ": allowed is one that is not");
  }
  if (at_ > file_.bytes() || file_.bytes() - at_ < kTarBlockBytes)
    return usage_error(place() +
                       ": the archive is cut short: allowed is one that ends with a "
                       "block of zeros");
  const auto block = fetch(at_, kTarBlockBytes);
  if (!block) return block.error();
  if (std::ranges::all_of(*block, [](std::uint8_t byte) { return byte == 0; }))
    return std::optional<Header>();
  if (!has_checksum(*block))
    return bad_content(place(), "checksum of the header", "that of a tar archive");
  const std::optional<std::uint64_t> bytes = tar_number(*block, 124, 12);
  if (!bytes) return bad_content(place(), "size of the member", "a number from 0 on");
  return std::optional(Header{
      .type = static_cast<char>((*block)[156]), .name = header_name(*block), .bytes = *bytes});
}

Result<bool> TarReader::next(TarMember& member) {
  Extension extension;
  while (true) {
    auto header = read_header();
    if (!header) return header.error();
    if (!*header) return false;
    const char type = (*header)->type;
    if (is_extension(type)) {
      ES_RETURN_IF_ERROR(read_extension(**header, extension));
      at_ = end_of(at_ + kTarBlockBytes, (*header)->bytes);
    } else if (type == kDirectory) {
      at_ += kTarBlockBytes;  // it has no content
      extension = {};
    } else if (type == '0' || type == '\0' || type == '7') {
      member = {.name = std::move(extension.name ? *extension.name : (*header)->name),
                .at = at_ + kTarBlockBytes,
                .bytes = extension.bytes.value_or((*header)->bytes)};
      ES_RETURN_IF_ERROR(check_content(member.bytes));
      at_ = end_of(member.at, member.bytes);
      return true;
    } else {
      return bad_content(place(), "type of the member", "a regular file or a directory");
    }
  }
}

Result<std::string> TarReader::content(const TarMember& member) {
  const auto bytes = fetch(member.at, member.bytes);
  if (!bytes) return bytes.error();
  return std::string(bytes->begin(), bytes->end());
}

Status TarReader::read_extension(const Header& header, Extension& extension) {
  ES_RETURN_IF_ERROR(check_content(header.bytes));
  if (header.bytes > kTarExtensionBytesMax)
    return bad_field(place(), "bytes of the extended header", std::to_string(header.bytes),
                     "at most " + std::to_string(kTarExtensionBytesMax));
  // A global header has no name and no size, and only links have a long target.
  if (header.type == 'g' || header.type == 'K') return {};
  const auto content = fetch(at_ + kTarBlockBytes, header.bytes);
  if (!content) return content.error();
  const std::string_view text = tar_field(*content, 0, content->size());
  if (header.type == 'x') return read_pax(text, extension);
  extension.name = std::string(text.substr(0, text.find('\0')));
  return {};
}

// Records "LENGTH KEY=VALUE\n", where the length counts all bytes of the record.
Status TarReader::read_pax(std::string_view text, Extension& extension) const {
  const auto bad = [&] {
    return bad_content(place(), "pax header", "records of a length, a name and a value");
  };
  while (!text.empty()) {
    std::size_t length = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, length);
    const auto digits = static_cast<std::size_t>(parsed.ptr - text.data());
    if (parsed.ec != std::errc() || digits == text.size() || text[digits] != ' ' ||
        length < digits + 2 || length > text.size() || text[length - 1] != '\n')
      return bad();
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return bad();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse."))
      return bad_content(place(), "type of the member", "a file without holes (tar --sparse)");
    if (key == "path") extension.name = std::string(value);
    if (key != "size") continue;
    std::uint64_t bytes = 0;
    const auto number = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (number.ec != std::errc() || number.ptr != value.data() + value.size()) return bad();
    extension.bytes = bytes;
  }
  return {};
}

}  // namespace es::store
