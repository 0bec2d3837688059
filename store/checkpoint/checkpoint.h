#pragma once
// On-demand checkpoints: one directory that is there whole or not at all. Format: FORMAT.md.
//
// The writer builds the directory beside its final name, forces everything to the disk and renames
// it; the reader verifies a digest of every block before it returns the bytes. The contents are
// named sections of bytes: what is in them (parameters, optimizer state, one context per EST) is
// the training engine's business.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"
#include "store/checkpoint/manifest.h"

namespace es::store {

// Where the bytes of a section come from.
struct Section {
  std::string name;  // as SectionInfo::name
  std::uint64_t bytes = 0;
  // Fills `out` with the bytes from `offset` on. The writer calls it on its own thread, once for
  // every block, the blocks in order; an error gives the checkpoint up.
  std::function<Status(std::uint64_t offset, std::span<std::byte> out)> read;
};

// `bytes` must stay valid and unchanged during the write.
Section section_of(std::string name, std::span<const std::byte> bytes);

// What a checkpoint is written from.
struct CheckpointContents {
  CheckpointHead head;
  std::string_view job_toml;
  std::span<const Section> sections;
  // Called once every section was read, for who finds the head's digests meanwhile. May be empty.
  std::function<Status(CheckpointHead&)> complete{};
};

// A checkpoint that is written and forced to the disk, and has no name yet: a directory
// ".NAME.partial-*", which nobody reads. Destroyed unpublished: removed. A process that is killed
// leaves it. Used by one thread at a time; several drafts may be written at the same time.
class CheckpointDraft {
 public:
  // Writes it beside `directory`, whose name is its NAME and whose parent must exist. On error
  // nothing is left. Errors: not found (no parent), usage (bad head or section), failure (disk);
  // what a section or `complete` says.
  static Result<CheckpointDraft> write(FileSystem& files, const std::filesystem::path& directory,
                                       const CheckpointContents& contents);
  CheckpointDraft(CheckpointDraft&& other) noexcept;
  CheckpointDraft& operator=(CheckpointDraft&&) = delete;
  ~CheckpointDraft();

  const CheckpointHead& head() const { return head_; }

  // Reads every block back. Errors: as CheckpointReader.
  Status verify() const;

  // Names it `directory`, in the same parent as before; on success the name is on the disk. Errors:
  // refused (it exists; another name may be tried), failure (disk).
  Status publish(const std::filesystem::path& directory);

  // Removes it. Returns `error`, which says so if even that fails.
  Error give_up(Error error);

 private:
  CheckpointDraft(FileSystem& files, std::filesystem::path partial, CheckpointHead head)
      : files_(files), partial_(std::move(partial)), head_(std::move(head)) {}
  Status fill(const CheckpointContents& contents);

  FileSystem& files_;
  std::filesystem::path partial_;  // empty: published, or removed
  CheckpointHead head_;
};

// Whether a checkpoint can be written as `directory`. Errors: refused (it exists), not found (no
// parent).
Status check_free(const std::filesystem::path& directory);

// Writes the checkpoint `directory`, whose parent must exist. On success everything is on the disk;
// on error nothing is left, neither under the final name nor beside it. Thread-safe. Errors: those
// of check_free, before anything is written; of CheckpointDraft.
Status write_checkpoint(FileSystem& files, const std::filesystem::path& directory,
                        const CheckpointContents& contents);

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
  // Reads and checks every section, from the disk itself where the file system can (direct_file.h),
  // keeping nothing.
  Status verify() const;

 private:
  CheckpointReader(std::filesystem::path directory, CheckpointManifest manifest,
                   std::string job_toml);

  std::filesystem::path directory_;
  CheckpointManifest manifest_;
  std::string job_toml_;
};

}  // namespace es::store
