#pragma once
// The base of adapters in memory that the workers of a node share.
//
// A worker keeps its frozen parameters in anonymous memory (memfd) that is sealed, so no process
// can change it, and names it in a file of the node's directory "base.DIGEST.BYTES". Another worker
// with the same frozen parameters finds the name there, compares all bytes, and maps the memory in
// place of its own. Each of them keeps the memory open, so it lives as long as one of them, and
// nothing but the small file is left behind however they end.
//
// It saves memory only: on any error the worker keeps its own copy.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gpu/engine/engine.h"
#include "proto/base/file_descriptor.h"
#include "proto/base/result.h"

namespace es::actors::worker {

class SharedBase {
 public:
  // All workers of the node have the same directory, which other users may not enter.
  explicit SharedBase(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Lets the engine read its frozen parameters from shared memory. Call it after each install().
  // Returns the number of bytes that are shared: 0 if the model has no frozen parameters or only a
  // few. Error (failure): the system refuses; the engine has its own copy then.
  Result<std::uint64_t> share(gpu::Engine& engine);

 private:
  Status find_or_make(const std::string& label, std::span<const std::byte> bytes);

  std::filesystem::path directory_;
  std::string label_;                     // of memory_
  std::optional<FileDescriptor> memory_;  // for the next share() and for other workers
};

}  // namespace es::actors::worker
