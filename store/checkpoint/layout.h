#pragma once
// Names of the files of a checkpoint directory; FORMAT.md says what is in them.
#include <filesystem>
#include <system_error>

namespace es::store {

inline constexpr const char* kManifestFile = "manifest";
inline constexpr const char* kJobTomlFile = "job.toml";
inline constexpr const char* kDataFile = "data";
inline constexpr const char* kCheckpointFiles[] = {kManifestFile, kJobTomlFile, kDataFile};

// The directory as an absolute path that ends in its own name ("a/b/" and "b" do not). It stays
// relative where nothing says to what: an empty one, or one in a working directory that is gone.
inline std::filesystem::path normal_path(const std::filesystem::path& directory) {
  std::error_code code;
  const std::filesystem::path absolute = std::filesystem::absolute(directory, code);
  const std::filesystem::path path = (code ? directory : absolute).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace es::store
