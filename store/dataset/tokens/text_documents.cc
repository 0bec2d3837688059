#include "store/dataset/tokens/text_documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "store/byte_source.h"
#include "store/field_error.h"
#include "store/json_depth.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;
using TakePart = std::function<Result<bool>(const DocumentPart&)>;

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr int kLineDepthMax = 64;

// The next bytes of a file.
class TextBuffer {
 public:
  static Result<TextBuffer> open(const fs::path& file) {
    auto source = ByteSource::open(file);
    if (!source) return source.error();
    return TextBuffer(*std::move(source));
  }

  // Reads until there are `wanted` bytes, or the file has ended.
  Status fill(std::size_t wanted) {
    if (ended_ || bytes().size() >= wanted) return {};
    bytes_.erase(0, at_);
    at_ = 0;
    while (!ended_ && bytes_.size() < wanted) {
      const std::size_t before = bytes_.size();
      bytes_.resize(before + kReadBytes);
      const auto read =
          source_.read({reinterpret_cast<std::uint8_t*>(bytes_.data()) + before, kReadBytes});
      if (!read) return read.error();
      bytes_.resize(before + *read);
      ended_ = *read < kReadBytes;
    }
    return {};
  }
  std::string take(std::size_t count) {
    std::string taken = bytes_.substr(at_, count);
    at_ += count;
    done_ += count;
    return taken;
  }

  std::string_view bytes() const { return std::string_view(bytes_).substr(at_); }
  bool ended() const { return ended_; }  // nothing follows bytes()
  std::uint64_t done() const { return done_; }

 private:
  explicit TextBuffer(ByteSource source) : source_(std::move(source)) {}

  ByteSource source_;
  std::string bytes_;
  std::size_t at_ = 0;  // bytes before it have been taken
  bool ended_ = false;
  std::uint64_t done_ = 0;
};

bool is_dark(char c) {
  return static_cast<unsigned char>(c) > ' ';
}

// Where a part of at most `bytes_max` bytes ends. REQUIRES: the text is longer.
std::size_t part_end(std::string_view text, std::size_t bytes_max) {
  std::size_t line = 0, space = 0;
  for (std::size_t at = bytes_max; at > 1; --at) {
    if (text[at - 1] == '\n') {
      if (is_dark(text[at]) && is_dark(text[at - 2])) return at;
      line = std::max(line, at);
    }
    if (text[at] == ' ') space = std::max(space, at);
  }
  if (line > 0) return line;
  if (space > 0) return space;
  std::size_t at = bytes_max;
  while (at > 1 && (text[at] & 0xc0) == 0x80) --at;
  return at;
}

Error not_utf8(const std::string& where, std::uint64_t byte) {
  return usage_error(where + ": byte " + std::to_string(byte) +
                     " is not UTF-8: allowed is UTF-8 text");
}

Result<bool> read_plain(const fs::path& file, std::uint64_t cut, const TakePart& take) {
  auto buffer = TextBuffer::open(file);
  if (!buffer) return buffer.error();
  DocumentPart part{.where = file.string()};
  while (true) {
    // One byte more tells whether the document goes on.
    ES_RETURN_IF_ERROR(buffer->fill(kPartBytesMax + 1));
    if (buffer->bytes().empty()) return true;
    const std::uint64_t begin = buffer->done();
    const std::uint64_t to_cut = begin < cut ? cut - begin : buffer->bytes().size();
    const auto rest =
        static_cast<std::size_t>(std::min<std::uint64_t>(to_cut, buffer->bytes().size()));
    part.last = rest <= kPartBytesMax;
    part.text = buffer->take(part.last ? rest : part_end(buffer->bytes(), kPartBytesMax));
    part.done = buffer->done();
    if (const auto bad = first_bad_utf8(part.text)) return not_utf8(part.where, begin + *bad);
    const auto more = take(part);
    if (!more || !*more) return more;
  }
}

// The document in a line of JSON.
Status read_line(const std::string& line, const std::string& field, DocumentPart& part) {
  if (const auto bad = first_bad_utf8(line)) return not_utf8(part.where, *bad);
  const auto json = json_depth(line) > kLineDepthMax
                        ? nlohmann::json(nlohmann::json::value_t::discarded)
                        : nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object())
    return bad_content(part.where, "the line",
                       "a JSON object of at most " + std::to_string(kLineDepthMax) + " levels");
  const auto at = json.find(field);
  if (at == json.end() || !at->is_string())
    return bad_content(part.where, "\"" + field + "\"", "a text (--field names another field)");
  part.text = at->get<std::string>();
  return {};
}

Result<bool> read_json_lines(const fs::path& file, const std::string& field, const TakePart& take) {
  auto buffer = TextBuffer::open(file);
  if (!buffer) return buffer.error();
  DocumentPart part{.last = true};
  for (std::uint64_t number = 1;; ++number) {
    part.where = file.string() + ": line " + std::to_string(number);
    std::size_t end = buffer->bytes().find('\n');
    for (std::size_t wanted = kReadBytes; end == std::string_view::npos && !buffer->ended();
         wanted = buffer->bytes().size() + 1) {
      if (buffer->bytes().size() > kJsonLineBytesMax)
        return bad_content(part.where, "the length of the line",
                           "at most " + std::to_string(kJsonLineBytesMax) + " bytes");
      ES_RETURN_IF_ERROR(buffer->fill(wanted));
      end = buffer->bytes().find('\n');
    }
    if (buffer->bytes().empty()) return true;
    const std::string line = buffer->take(std::min(end, buffer->bytes().size() - 1) + 1);
    part.done = buffer->done();
    if (std::ranges::none_of(line, is_dark)) continue;
    ES_RETURN_IF_ERROR(read_line(line, field, part));
    const auto more = take(part);
    if (!more || !*more) return more;
  }
}

}  // namespace

bool has_json_lines(const fs::path& file) {
  const fs::path name = file.extension() == ".gz" ? file.stem() : file;
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

Result<std::uint64_t> share_begin(const fs::path& file, double share) {
  // The first pass finds the size, and the second one the end of a line.
  std::uint64_t size = 0;
  std::uint64_t wanted = 0;
  for (const bool counts : {true, false}) {
    auto source = ByteSource::open(file);
    if (!source) return source.error();
    if (counts && source->plain_bytes()) {
      size = *source->plain_bytes();
    } else {
      std::vector<std::uint8_t> bytes(kReadBytes);
      std::uint64_t at = 0;
      for (std::size_t got = kReadBytes; got == kReadBytes; at += got) {
        const auto read = source->read(bytes);
        if (!read) return read.error();
        got = *read;
        for (std::size_t i = 0; !counts && i < got; ++i)
          if (at + i + 1 >= wanted && bytes[i] == '\n') return at + i + 1;
      }
      if (counts) size = at;
    }
    wanted = static_cast<std::uint64_t>((1 - share) * static_cast<double>(size));
  }
  return size;
}

Result<bool> read_documents(const fs::path& file, const std::string& field, std::uint64_t cut,
                            const TakePart& take) {
  return has_json_lines(file) ? read_json_lines(file, field, take) : read_plain(file, cut, take);
}

}  // namespace es::store
