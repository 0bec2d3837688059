#pragma once
// The directory of an EasyScale cluster on Slurm, which the head, all agents and the user's machine
// must see. docs/SLURM.md lists its files. Mode 0700: its keys are handed over by it.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::actors::esctl {

// What the options of `esctl slurm up` write into the files of a new directory.
struct ClusterFiles {
  std::string devices = "best";  // of each agent, as for easyscaled --devices
  std::vector<std::string> data_roots, checkpoint_roots;
  bool python_data = false;
};

class ClusterDirectory {
 public:
  // Creates the directory and its missing files. Files that exist stay as they are; options that
  // would change one of them are refused. Errors: refused, failure; the message names the file.
  static Result<ClusterDirectory> create(const std::filesystem::path& directory,
                                         const ClusterFiles& files);
  // Error: not found, if `create` did not make it.
  static Result<ClusterDirectory> open(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const char* name) const { return path_ / name; }
  // The names of the jobs of Slurm. They contain a random word, so clusters are not mixed up.
  std::string head_job() const { return "es-head-" + tag_; }
  std::string agent_job() const { return "es-agent-" + tag_; }

  // The endpoint of the last head; empty if there was none.
  std::string endpoint() const;
  Status write_endpoint(const std::string& endpoint) const;

  // Whether the cluster is to end (`esctl slurm down`).
  bool is_going_down() const;
  Status set_going_down(bool down) const;

 private:
  ClusterDirectory(std::filesystem::path path, std::string tag)
      : path_(std::move(path)), tag_(std::move(tag)) {}

  std::filesystem::path path_;
  std::string tag_;
};

// The files that `create` writes, for tests.
std::string head_toml(const ClusterFiles& files);
std::string agent_toml(const ClusterFiles& files);

}  // namespace es::actors::esctl
