#pragma once
// StatePull fetches the files of a checkpoint on another node's disk, piece by piece through the
// head, into a directory of this worker.
//
// The caller receives messages and sends requests; this class only writes the directory, one piece
// at a time into the page cache. The reader of the checkpoint verifies the content of the files
// later. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace es::actors::worker {

// The suffix of the directory; before it stands the stem of the worker's files in the run
// directory.
inline constexpr const char* kPulledSuffix = ".state";

class StatePull {
 public:
  // The fields of wire::ReadState.
  struct Request {
    std::uint8_t file = 0;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    auto operator<=>(const Request&) const = default;
  };
  struct Outcome {
    std::vector<Request> requests;  // to be sent
    bool complete = false;          // all files are here
  };

  // Creates the directory and removes an older one.
  explicit StatePull(std::filesystem::path directory);
  // Removes the directory, unless release() was called.
  ~StatePull();
  StatePull(const StatePull&) = delete;
  StatePull& operator=(const StatePull&) = delete;

  // Returns the first request.
  Outcome begin();
  // Handles an answer without an error. An answer that was not requested changes nothing. Error:
  // the data cannot be written, or is not what was requested. After an error this object must not
  // be used for more answers.
  Result<Outcome> take(std::uint8_t file, std::uint64_t offset, std::span<const std::byte> data,
                       const std::vector<std::uint64_t>& sizes);
  // Returns the directory, which the caller owns from now on.
  std::filesystem::path release();

 private:
  Status take_sizes(const std::vector<std::uint64_t>& sizes);
  Status write(const Request& piece, std::span<const std::byte> data);
  void ask(Outcome& outcome);

  std::filesystem::path directory_;
  std::vector<Request> missing_;  // not requested yet; the next piece is the last element
  std::set<Request> asked_;
};

}  // namespace es::actors::worker
