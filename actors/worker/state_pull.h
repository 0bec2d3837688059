#pragma once
// StatePull: gets the files of a checkpoint that lies on another node's disk, piece by piece
// through the head, into a directory of this worker's own.
//
// Messages come in and requests go out by the caller; only the directory is written, a piece at a
// time into the system's cache. What is in the files is checked by who reads the checkpoint.
// Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace es::actors::worker {

// Of the directory, after the stem of a worker's files in the run directory.
inline constexpr const char* kPulledSuffix = ".state";

class StatePull {
 public:
  // wire::ReadState.
  struct Request {
    std::uint8_t file = 0;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    auto operator<=>(const Request&) const = default;
  };
  struct Outcome {
    std::vector<Request> requests;  // to be sent
    bool complete = false;          // all files are there
  };

  // Makes the directory anew.
  explicit StatePull(std::filesystem::path directory);
  // Removes it, unless release() was called.
  ~StatePull();
  StatePull(const StatePull&) = delete;
  StatePull& operator=(const StatePull&) = delete;

  // The first request.
  Outcome begin();
  // An answer without an error. One that was not asked for changes nothing. Error: it cannot be
  // written, or is not what was asked for; nothing more will come of this pull then.
  Result<Outcome> take(std::uint8_t file, std::uint64_t offset, std::span<const std::byte> data,
                       const std::vector<std::uint64_t>& sizes);
  // The directory is the caller's from now on.
  std::filesystem::path release();

 private:
  Status take_sizes(const std::vector<std::uint64_t>& sizes);
  Status write(const Request& piece, std::span<const std::byte> data);
  void ask(Outcome& outcome);

  std::filesystem::path directory_;
  std::vector<Request> missing_;  // not asked for yet, the next one last
  std::set<Request> asked_;
};

}  // namespace es::actors::worker
