#pragma once
// Names of the files of a checkpoint directory; FORMAT.md says what is in them.
#include <filesystem>

namespace es::store {

inline constexpr const char* kManifestFile = "manifest";
inline constexpr const char* kJobTomlFile = "job.toml";
inline constexpr const char* kDataFile = "data";

// The directory as an absolute path that ends in its own name ("a/b/" and "b" do not).
inline std::filesystem::path normal_path(const std::filesystem::path& directory) {
  const std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace es::store
