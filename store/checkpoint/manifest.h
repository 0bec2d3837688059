#pragma once
// The manifest of a checkpoint: what the directory holds and what it must hash to.
// The text form is defined in FORMAT.md; encode and decode are exact inverses.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint32_t kCheckpointFormatVersion = 4;  // that is written
inline constexpr std::uint32_t kOldestCheckpointFormat = 3;   // that is read
inline constexpr std::string_view kManifestFirstWord = "easyscale-checkpoint ";
inline constexpr std::uint64_t kCheckpointBlockBytes = 1 << 20;
inline constexpr std::size_t kSectionsMax = 65'536;
inline constexpr std::uint64_t kCheckpointBytesMax = std::uint64_t{1} << 42;  // of all sections
inline constexpr std::uint64_t kJobTomlBytesMax = 1 << 20;
inline constexpr std::size_t kManifestBytesMax = std::size_t{256} << 20;

// What a checkpoint is of: the ledger head of the job at that version, and which run wrote it,
// when.
struct CheckpointHead {
  std::string job_name;  // letters, digits, '-', '_', '.'; 1 to 128 characters
  Version version = 0;
  Digest params_digest;  // as in the ledger: of all parameters
  Digest state_digest;   // of optimizer state and EST contexts
  // Id of the job, which no other job of any head has; as job_name, or empty: not known (format 3).
  std::string run{};
  std::uint64_t written_unix_ms = 0;  // when its bytes were complete; 0: not known (format 3)
  bool operator==(const CheckpointHead&) const = default;
};

struct SectionInfo {
  std::string name;  // letters, digits, '-', '_', '.', '/'; 1 to 128 characters; unique
  std::uint64_t bytes = 0;
  std::vector<Digest> blocks;  // of each kCheckpointBlockBytes, the last may be shorter
  bool operator==(const SectionInfo&) const = default;
};

struct CheckpointManifest {
  CheckpointHead head;
  std::uint64_t job_toml_bytes = 0;
  Digest job_toml_digest;
  std::vector<SectionInfo> sections;  // in the order of the data file
  std::uint32_t format = kCheckpointFormatVersion;

  // Size of the data file. REQUIRES: validate(*this).ok().
  std::uint64_t data_bytes() const;
  bool operator==(const CheckpointManifest&) const = default;
};

// Number of blocks of a section of this size.
constexpr std::uint64_t block_count(std::uint64_t bytes) {
  return bytes / kCheckpointBlockBytes + (bytes % kCheckpointBlockBytes != 0 ? 1 : 0);
}

// Error (usage): a name, size or number of blocks outside what the fields allow.
Status validate(const CheckpointManifest& manifest);

// In manifest.format. REQUIRES: validate(manifest).ok().
std::string encode_manifest(const CheckpointManifest& manifest);

// Reads every format from kOldestCheckpointFormat on. Error (usage), beginning with `where`:
// unknown format version, damaged text (any changed byte), or a field outside what is allowed.
Result<CheckpointManifest> decode_manifest(std::string_view text, const std::string& where);

}  // namespace es::store
