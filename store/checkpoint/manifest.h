#pragma once
// The manifest of a checkpoint lists the contents of the directory with their digests. FORMAT.md
// defines its text form; encode and decode are exact inverses.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint32_t kCheckpointFormatVersion = 5;  // format that is written
inline constexpr std::uint32_t kOldestCheckpointFormat = 3;   // oldest format that is read
inline constexpr std::string_view kManifestFirstWord = "easyscale-checkpoint ";
inline constexpr std::uint64_t kCheckpointBlockBytes = 1 << 20;
inline constexpr std::size_t kSectionsMax = 65'536;
// Limit of all sections together.
inline constexpr std::uint64_t kCheckpointBytesMax = std::uint64_t{1} << 42;
inline constexpr std::uint64_t kJobTomlBytesMax = 1 << 20;
inline constexpr std::size_t kManifestBytesMax = std::size_t{256} << 20;

// The identity of a checkpoint: its job and version, the digests of that version, and the run and
// the time that wrote it.
struct CheckpointHead {
  std::string job_name;  // letters, digits, '-', '_', '.'; 1 to 128 characters
  Version version = 0;
  Digest params_digest;  // digest of all parameters, as in the ledger
  Digest state_digest;   // digest of the optimizer arrays and the EST contexts
  // Id of the job, which no other job of any head has. It has the form of job_name, or is empty if
  // not known (format 3).
  std::string run{};
  // Ms since 1970 when its bytes were complete; 0 if not known (format 3)
  std::uint64_t written_unix_ms = 0;
  bool operator==(const CheckpointHead&) const = default;
};

struct SectionInfo {
  std::string name;  // letters, digits, '-', '_', '.', '/'; 1 to 128 characters; unique
  std::uint64_t bytes = 0;
  // Digest of each kCheckpointBlockBytes; the last block may be shorter.
  std::vector<Digest> blocks;
  bool operator==(const SectionInfo&) const = default;
};

struct CheckpointManifest {
  CheckpointHead head;
  std::uint64_t job_toml_bytes = 0;
  Digest job_toml_digest;
  std::vector<SectionInfo> sections;  // in the order of the data file
  std::uint32_t format = kCheckpointFormatVersion;

  // Size of the data file in bytes. REQUIRES: validate(*this).ok().
  std::uint64_t data_bytes() const;
  bool operator==(const CheckpointManifest&) const = default;
};

// Number of blocks of a section with this size.
constexpr std::uint64_t block_count(std::uint64_t bytes) {
  return bytes / kCheckpointBlockBytes + (bytes % kCheckpointBlockBytes != 0 ? 1 : 0);
}

// Error (usage): a name, a size or a number of blocks is not allowed.
Status validate(const CheckpointManifest& manifest);

// Encodes the manifest in the format manifest.format. REQUIRES: validate(manifest).ok().
std::string encode_manifest(const CheckpointManifest& manifest);

// Reads every format from kOldestCheckpointFormat on. Error (usage), which begins with `where`:
// unknown format version, damaged text (any changed byte), or a field with a value that is not
// allowed.
Result<CheckpointManifest> decode_manifest(std::string_view text, const std::string& where);

}  // namespace es::store
