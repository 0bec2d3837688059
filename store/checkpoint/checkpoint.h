#pragma once
// Writes and reads checkpoints. A checkpoint is one directory that exists either as a whole or not
// at all. FORMAT.md describes its files.
//
// The writer builds the directory beside its final name, forces everything to the disk and renames
// it. The reader verifies the digest of every block before it returns the bytes. The contents are
// named sections of bytes; the training engine defines what they contain (parameters, optimizer
// arrays, one context for each EST).
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

// A section that is to be written.
struct Section {
  std::string name;  // as SectionInfo::name
  std::uint64_t bytes = 0;
  // Fills `out` with the bytes from `offset` on. The writer calls it on its own thread, once for
  // every block and in the order of the blocks. An error abandons the checkpoint.
  std::function<Status(std::uint64_t offset, std::span<std::byte> out)> read;
};

// `bytes` must stay valid and unchanged during the write.
Section section_of(std::string name, std::span<const std::byte> bytes);

// The contents of a checkpoint that is to be written.
struct CheckpointContents {
  CheckpointHead head;
  std::string_view job_toml;
  std::span<const Section> sections;
  // Called when every section has been read, so that the caller can compute the digests of the head
  // while the sections are written. May be empty.
  std::function<Status(CheckpointHead&)> complete{};
};

// A checkpoint that is written and forced to the disk, but has no final name yet. It is a directory
// ".NAME.partial-*", which no reader uses. The destructor removes a draft that was not published; a
// process that is killed leaves it. Used by one thread at a time; several drafts may be written at
// the same time.
class CheckpointDraft {
 public:
  // Writes the draft beside `directory`, whose name becomes NAME and whose parent must exist. After
  // an error no files are left. Errors: not found (no parent), usage (bad head or section), failure
  // (disk), and the errors of a section or of `complete`.
  static Result<CheckpointDraft> write(FileSystem& files, const std::filesystem::path& directory,
                                       const CheckpointContents& contents);
  CheckpointDraft(CheckpointDraft&& other) noexcept;
  CheckpointDraft& operator=(CheckpointDraft&&) = delete;
  ~CheckpointDraft();

  const CheckpointHead& head() const { return head_; }

  // Reads every block back. Errors as for CheckpointReader.
  Status verify() const;

  // Renames the draft to `directory`, which has the same parent. On success the name is on disk.
  // Errors: refused (it exists; another name may be tried), failure (disk).
  Status publish(const std::filesystem::path& directory);

  // Removes the draft. Returns `error`, extended by the reason if the removal fails too.
  Error give_up(Error error);

 private:
  CheckpointDraft(FileSystem& files, std::filesystem::path partial, CheckpointHead head)
      : files_(files), partial_(std::move(partial)), head_(std::move(head)) {}
  Status fill(const CheckpointContents& contents);

  FileSystem& files_;
  std::filesystem::path partial_;  // empty after publish() or give_up()
  CheckpointHead head_;
};

// Checks whether a checkpoint can be written as `directory`. Errors: refused (it exists), not found
// (no parent).
Status check_free(const std::filesystem::path& directory);

// Writes the checkpoint `directory`, whose parent must exist. On success everything is on disk.
// After an error no files are left, neither under the final name nor beside it. Thread-safe.
// Errors: those of check_free, before anything is written, and those of CheckpointDraft.
Status write_checkpoint(FileSystem& files, const std::filesystem::path& directory,
                        const CheckpointContents& contents);

// A checkpoint that is open for reading. It keeps no file open between calls; const and
// thread-safe.
class CheckpointReader {
 public:
  // Reads and checks the manifest, the job spec and the size of the data. Errors: not found (no
  // such checkpoint), usage (unknown format version, or damage; the error names the file).
  static Result<CheckpointReader> open(const std::filesystem::path& directory);

  const CheckpointHead& head() const { return manifest_.head; }
  const CheckpointManifest& manifest() const { return manifest_; }
  // Canonical TOML text of the job spec.
  const std::string& job_toml() const { return job_toml_; }
  // Returns nullptr if there is no section with this name.
  const SectionInfo* find(std::string_view name) const;

  // The bytes of a section. Errors: not found (no such section), usage (damage; the error names the
  // file and the block).
  Result<std::vector<std::byte>> read(std::string_view name) const;
  // The same, into memory of the caller. Error (usage) also if out.size() is not the size of the
  // section.
  Status read_into(std::string_view name, std::span<std::byte> out) const;
  // The same without memory for the whole section: `visit` gets each block, in order, when it is
  // verified. Error (usage) also if `bytes` is not the size of the section.
  using Visit = std::function<void(std::uint64_t offset, std::span<const std::byte> block)>;
  Status visit(std::string_view name, std::uint64_t bytes, const Visit& visit) const;
  // Reads and checks every section without keeping it. The bytes come from the disk itself if the
  // file system supports that (direct_file.h).
  Status verify() const;

 private:
  CheckpointReader(std::filesystem::path directory, CheckpointManifest manifest,
                   std::string job_toml);
  // `place` returns the memory for the bytes [offset, offset + bytes) of the section.
  using Place = std::function<std::span<std::byte>(std::uint64_t offset, std::uint64_t bytes)>;
  Status read_blocks(std::string_view name, std::uint64_t bytes, const Place& place,
                     const Visit& visit) const;

  std::filesystem::path directory_;
  CheckpointManifest manifest_;
  std::string job_toml_;
};

}  // namespace es::store
