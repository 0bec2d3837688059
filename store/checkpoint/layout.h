#pragma once
// Names of the files of a checkpoint directory. FORMAT.md describes their contents.
#include <filesystem>
#include <system_error>

namespace es::store {

inline constexpr const char* kManifestFile = "manifest";
inline constexpr const char* kJobTomlFile = "job.toml";
inline constexpr const char* kDataFile = "data";
inline constexpr const char* kCheckpointFiles[] = {kManifestFile, kJobTomlFile, kDataFile};

// Converts a directory to an absolute path that ends with its own name; "a/b/" becomes ".../a/b".
// The path stays relative if it is empty, or if the working directory does not exist any more.
inline std::filesystem::path normal_path(const std::filesystem::path& directory) {
  std::error_code code;
  const std::filesystem::path absolute = std::filesystem::absolute(directory, code);
  const std::filesystem::path path = (code ? directory : absolute).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace es::store
