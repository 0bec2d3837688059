#include "actors/kubernetes/shell/cluster_keys.h"

#include <stdlib.h>

#include <fstream>

#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/secret_text.h"
#include "proto/base/text_file.h"

namespace es::actors::kubernetes {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyFileMax = 4096;

// A private directory that ends with this object. The keys have one reader, of directories.
class PrivateDirectory {
 public:
  PrivateDirectory() {
    std::error_code error;
    std::string text = (fs::temp_directory_path(error) / "keys-XXXXXX").string();
    if (!error && ::mkdtemp(text.data()) != nullptr) path_ = text;
  }
  ~PrivateDirectory() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  const fs::path& path() const { return path_; }  // empty: it cannot be made

 private:
  fs::path path_;
};

Error no_directory() {
  return failure("no private directory can be made in the directory for temporary files (TMPDIR)");
}

Status write_private(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
  std::error_code error;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, error);
  return error ? Status(failure(file.string() + ": " + error.message())) : Status();
}

}  // namespace

Result<Json> new_cluster_keys() {
  const PrivateDirectory directory;
  if (directory.path().empty()) return no_directory();
  const fs::path keys = directory.path() / "keys";
  ES_RETURN_IF_ERROR(create_cluster_keys(keys));
  Json texts = Json::object();
  for (const auto& entry : fs::recursive_directory_iterator(keys)) {
    if (!entry.is_regular_file()) continue;
    auto text = read_text_file(entry.path(), kKeyFileMax);
    if (!text) return text.error();
    texts[secret_key(entry.path().lexically_relative(keys).string())] = *std::move(text);
  }
  return texts;
}

Result<ClusterKeys> client_keys(const Json& data) {
  const PrivateDirectory directory;
  if (directory.path().empty()) return no_directory();
  for (const char* name : {"client.key", "server.pub"}) {
    const auto text = from_base64(text_at(data, {name}));
    if (!text) return text.error();
    ES_RETURN_IF_ERROR(write_private(directory.path() / name, *text));
  }
  return read_cluster_keys(directory.path());
}

}  // namespace es::actors::kubernetes
