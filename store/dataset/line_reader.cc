#include "store/dataset/line_reader.h"

#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
static_assert(kPieceBytes > 2 * kLineBytesMax);

}  // namespace

LineReader::LineReader(std::string file, ByteSource source)
    : file_(std::move(file)), source_(std::move(source)) {}

Result<LineReader> LineReader::open(const std::filesystem::path& file) {
  Result<ByteSource> source = ByteSource::open(file);
  if (!source) return source.error();
  return LineReader(file.string(), *std::move(source));
}

std::string LineReader::where() const {
  return file_ + ": line " + std::to_string(number_);
}

Result<bool> LineReader::next(std::string_view& line) {
  std::size_t end = piece_.find('\n', at_);
  // One piece is enough: a line that does not end in it is longer than allowed.
  if (end == std::string::npos && !finished_) {
    piece_.erase(0, at_);
    at_ = 0;
    const std::size_t kept = piece_.size();
    piece_.resize(kept + kPieceBytes);
    const Result<std::size_t> got =
        source_.read({reinterpret_cast<std::uint8_t*>(piece_.data()) + kept, kPieceBytes});
    if (!got) return got.error();
    piece_.resize(kept + *got);
    // read() returns fewer bytes only at the end of the file.
    finished_ = *got < kPieceBytes;
    end = piece_.find('\n', kept);
  }
  if (end == std::string::npos && finished_ && at_ == piece_.size()) return false;
  ++number_;
  if (end == std::string::npos) end = piece_.size();
  if (end - at_ > kLineBytesMax)
    return bad_field(where(), "length", "more than " + std::to_string(kLineBytesMax),
                     "at most " + std::to_string(kLineBytesMax) + " bytes");
  line = std::string_view(piece_).substr(at_, end - at_);
  at_ = std::min(end + 1, piece_.size());
  // Files from Windows end their lines with "\r\n".
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace es::store
