#include "actors/esctl/slurm/cluster_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "actors/base/gateway/shell/keys.h"
#include "actors/base/program/private_directory.h"
#include "actors/base/program/random_tag.h"
#include "actors/esctl/slurm/batch_scripts.h"
#include "proto/base/file_descriptor.h"
#include "proto/base/text_file.h"
#include "store/system_error.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextBytesMax = 4096;
constexpr const char* kTag = "name";
constexpr const char* kEndpoint = "endpoint";
constexpr const char* kDown = "down";

// TOML's basic strings and lists of them have the form of JSON.
std::string toml_line(const char* key, const nlohmann::json& value) {
  constexpr int kOneLine = -1;
  return std::string(key) + " = " +
         value.dump(kOneLine, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string roots_toml(const ClusterFiles& files) {
  std::string text;
  if (!files.data_roots.empty()) text += toml_line("data-root", files.data_roots);
  if (!files.checkpoint_roots.empty()) text += toml_line("checkpoint-root", files.checkpoint_roots);
  if (files.python_data) text += toml_line("python-data", true);
  return text;
}

bool is_default(const ClusterFiles& files) {
  return files.devices == ClusterFiles().devices && roots_toml(files).empty();
}

Status write_text(const fs::path& file, const std::string& text, int more_flags, mode_t mode) {
  const FileDescriptor out(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | more_flags, mode));
  if (out.get() < 0) return store::system_failure(file, "be written", errno);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t bytes = ::write(out.get(), text.data() + done, text.size() - done);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return store::system_failure(file, "be written", errno);
    done += static_cast<std::size_t>(bytes);
  }
  return {};
}

// Leaves a file that exists as it is.
Status write_if_missing(const fs::path& file, const std::string& text, mode_t mode) {
  std::error_code unknown;
  if (fs::exists(file, unknown)) return {};
  return write_text(file, text, O_EXCL, mode);
}

std::string without_line_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string head_toml(const ClusterFiles& files) {
  return "# Options of the head of this cluster (easyscaled --help), read when it starts.\n"
         "devices = \"none\"    # it may run on a login node\n"
         "grace = 20\n" +
         roots_toml(files);
}

std::string agent_toml(const ClusterFiles& files) {
  return "# Options of every agent of this cluster (easyscaled --help), read when it starts.\n" +
         toml_line("devices", files.devices) +
         "# Seconds to hand the workers over after SIGTERM. Slurm's KillWait is 30 by default.\n"
         "grace = 25\n" +
         roots_toml(files);
}

Result<ClusterDirectory> ClusterDirectory::create(const fs::path& directory,
                                                  const ClusterFiles& files) {
  if (directory.empty()) return usage_error("--dir: the path is empty");
  const fs::path path = fs::absolute(directory);
  const fs::path agent = path / "agent.toml";
  std::error_code unknown;
  if (fs::exists(agent, unknown) && !is_default(files))
    return refused(agent.string() + " exists: edit it and " + (path / "head.toml").string() +
                   " in place of --devices, --data-root, --checkpoint-root and --python-data");
  ES_RETURN_IF_ERROR(make_private_directory(path));
  for (const char* name : {"logs", "agents"})
    ES_RETURN_IF_ERROR(make_private_directory(path / name));
  if (!fs::exists(path / "keys", unknown)) ES_RETURN_IF_ERROR(create_cluster_keys(path / "keys"));
  ES_RETURN_IF_ERROR(write_if_missing(path / "head.toml", head_toml(files), 0600));
  ES_RETURN_IF_ERROR(write_if_missing(path / "head.sbatch", std::string(kHeadScript), 0700));
  ES_RETURN_IF_ERROR(write_if_missing(path / "agent.sbatch", std::string(kAgentScript), 0700));
  ES_RETURN_IF_ERROR(write_if_missing(agent, agent_toml(files), 0600));
  // Last, because open() takes it as the mark of a complete directory.
  ES_RETURN_IF_ERROR(write_if_missing(path / kTag, random_tag() + "\n", 0600));
  return open(path);
}

Result<ClusterDirectory> ClusterDirectory::open(const fs::path& directory) {
  if (directory.empty()) return usage_error("--dir: the path is empty");
  const fs::path path = fs::absolute(directory);
  const auto tag = read_text_file(path / kTag, kTextBytesMax);
  if (!tag && tag.error().kind == ErrorKind::kNotFound)
    return not_found("directory " + path.string() +
                     ": there is no cluster in it; esctl slurm up makes one");
  if (!tag) return tag.error();
  return ClusterDirectory(path, without_line_end(*tag));
}

std::string ClusterDirectory::endpoint() const {
  const auto text = read_text_file(path_ / kEndpoint, kTextBytesMax);
  return text ? without_line_end(*text) : std::string();
}

Status ClusterDirectory::write_endpoint(const std::string& endpoint) const {
  const fs::path next = path_ / "endpoint.new";
  ES_RETURN_IF_ERROR(write_text(next, endpoint + "\n", O_TRUNC, 0600));
  if (::rename(next.c_str(), (path_ / kEndpoint).c_str()) != 0)
    return store::system_failure(path_ / kEndpoint, "be replaced", errno);
  return {};
}

bool ClusterDirectory::is_going_down() const {
  std::error_code unknown;
  return fs::exists(path_ / kDown, unknown);
}

Status ClusterDirectory::set_going_down(bool down) const {
  if (down) return write_text(path_ / kDown, "", O_TRUNC, 0600);
  if (::unlink((path_ / kDown).c_str()) != 0 && errno != ENOENT)
    return store::system_failure(path_ / kDown, "be removed", errno);
  return {};
}

}  // namespace es::actors::esctl
