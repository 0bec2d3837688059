#pragma once
// On-demand checkpoints: one directory that is there whole or not at all. Format: FORMAT.md.
//
// The writer builds the directory beside its final name, forces everything to the disk and renames
// it; the reader verifies a digest of every block before it returns the bytes. The contents are
// named sections of bytes: what is in them (parameters, optimizer state, one context per EST) is
// the training engine's business.
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"
#include "store/checkpoint/manifest.h"

namespace es::store {

struct Section {
  std::string name;                  // as SectionInfo::name
  std::span<const std::byte> bytes;  // must stay valid and unchanged during the write
};

// Writes the checkpoint `directory`, whose parent must exist. On success everything is on the disk;
// on error nothing is left, neither under the final name nor beside it. A process that is killed
// meanwhile leaves at most a directory ".NAME.partial-*" beside it, which nobody reads.
// Thread-safe. Errors: refused (directory exists), not found (no parent), usage (bad head or
// section), failure (disk).
Status write_checkpoint(FileSystem& files, const std::filesystem::path& directory,
                        const CheckpointHead& head, std::string_view job_toml,
                        std::span<const Section> sections);

// A checkpoint that is open for reading. Holds no file open between calls; const and thread-safe.
class CheckpointReader {
 public:
  // Reads and checks the manifest, the job spec and the size of the data.
  // Errors: not found (no such checkpoint), usage (unknown format version; damage, naming the
  // file).
  static Result<CheckpointReader> open(const std::filesystem::path& directory);

  const CheckpointHead& head() const { return manifest_.head; }
  const CheckpointManifest& manifest() const { return manifest_; }
  // Canonical TOML text of the job spec.
  const std::string& job_toml() const { return job_toml_; }
  // Null when there is no section of that name.
  const SectionInfo* find(std::string_view name) const;

  // The bytes of a section. Errors: not found (no such section), usage (damage: file and block).
  Result<std::vector<std::byte>> read(std::string_view name) const;
  // Same, into memory of the caller. Error (usage) also when out.size() is not the section's size.
  Status read_into(std::string_view name, std::span<std::byte> out) const;
  // Reads and checks every section, keeping nothing.
  Status verify() const;

 private:
  CheckpointReader(std::filesystem::path directory, CheckpointManifest manifest,
                   std::string job_toml);

  std::filesystem::path directory_;
  CheckpointManifest manifest_;
  std::string job_toml_;
};

}  // namespace es::store
