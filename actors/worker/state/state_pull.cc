#include "actors/worker/state/state_pull.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "actors/base/protocol/core/pieces.h"
#include "store/checkpoint/layout.h"
#include "store/checkpoint/manifest.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

Error system_error(const fs::path& path) {
  return failure(path.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace

StatePull::StatePull(fs::path directory) : directory_(std::move(directory)) {
  std::error_code ignored;  // the first write reports what is wrong
  fs::remove_all(directory_, ignored);
  fs::create_directories(directory_, ignored);
}

StatePull::~StatePull() {
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

fs::path StatePull::release() {
  return std::exchange(directory_, {});
}

StatePull::Outcome StatePull::begin() {
  // File 0 stands for the sizes of all files. The other requests follow from them.
  missing_ = {Request{}};
  Outcome outcome;
  ask(outcome);
  return outcome;
}

void StatePull::ask(Outcome& outcome) {
  while (!missing_.empty() && asked_.size() < kPiecesInFlight) {
    outcome.requests.push_back(missing_.back());
    asked_.insert(missing_.back());
    missing_.pop_back();
  }
  outcome.complete = missing_.empty() && asked_.empty();
}

Result<StatePull::Outcome> StatePull::take(std::uint8_t file, std::uint64_t offset,
                                           std::span<const std::byte> data,
                                           const std::vector<std::uint64_t>& sizes) {
  const auto asked = std::ranges::find_if(
      asked_, [&](const Request& r) { return r.file == file && r.offset == offset; });
  if (asked == asked_.end()) return Outcome{};
  const Request piece = *asked;
  asked_.erase(asked);
  ES_RETURN_IF_ERROR(file == 0 ? take_sizes(sizes) : write(piece, data));
  Outcome outcome;
  ask(outcome);
  return outcome;
}

Status StatePull::take_sizes(const std::vector<std::uint64_t>& sizes) {
  constexpr std::uint64_t kFileBytesMax = store::kCheckpointBytesMax;
  // The bound limits what a wrong answer can make this worker request.
  const bool fits = sizes.size() == std::size(store::kCheckpointFiles) &&
                    std::ranges::all_of(sizes, [](auto bytes) { return bytes <= kFileBytesMax; });
  if (!fits) return failure("the node's answer does not contain the sizes of a checkpoint's files");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto number = static_cast<std::uint8_t>(i + 1);
    // An empty file is requested too, because its piece creates it.
    for (std::uint64_t at = 0; at == 0 || at < sizes[i]; at += kPieceBytes)
      missing_.push_back(
          {number, at,
           static_cast<std::uint32_t>(std::min<std::uint64_t>(kPieceBytes, sizes[i] - at))});
  }
  // The next piece is taken from the end, so the files arrive from their beginning.
  std::ranges::reverse(missing_);
  return {};
}

Status StatePull::write(const Request& piece, std::span<const std::byte> data) {
  const fs::path path = directory_ / store::kCheckpointFiles[piece.file - 1];
  if (data.size() != piece.bytes)
    return failure(path.filename().string() + ": " + std::to_string(data.size()) +
                   " bytes arrived, but " + std::to_string(piece.bytes) + " were requested");
  // Several pieces are on their way at once, so each is written at its own offset, whatever the
  // order.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return system_error(path);
  Status status;
  while (status.ok() && !data.empty()) {
    const ssize_t written =
        ::pwrite(file, data.data(), data.size(),
                 static_cast<off_t>(piece.offset + (piece.bytes - data.size())));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      status = system_error(path);
    else
      data = data.subspan(static_cast<std::size_t>(written));
  }
  ::close(file);
  return status;
}

}  // namespace es::actors::worker
