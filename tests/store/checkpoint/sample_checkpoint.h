#pragma once
// A small checkpoint with all parts of a real one.
#include <random>
#include <string>
#include <vector>

#include "store/checkpoint/checkpoint.h"

namespace es::test {

struct SampleCheckpoint {
  store::CheckpointHead head{
      .job_name = "resnet18-3f2a", .version = 120, .params_digest = {1, 2}, .state_digest = {3, 4}};
  std::string job_toml = "name = \"resnet18-3f2a\"\nmax_p = 4\n";
  std::vector<std::pair<std::string, std::vector<std::byte>>> contents;

  // Sections of the given sizes with random bytes.
  explicit SampleCheckpoint(const std::vector<std::pair<std::string, std::size_t>>& sizes) {
    std::mt19937_64 random(7);
    for (const auto& [name, size] : sizes) {
      std::vector<std::byte> bytes(size);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      contents.emplace_back(name, std::move(bytes));
    }
  }

  std::vector<store::Section> sections() const {
    std::vector<store::Section> all;
    for (const auto& [name, bytes] : contents) all.push_back(store::section_of(name, bytes));
    return all;
  }
  Status write(const std::filesystem::path& directory,
               store::FileSystem& files = store::posix_file_system()) const {
    const std::vector<store::Section> all = sections();
    return store::write_checkpoint(files, directory, {head, job_toml, all});
  }
  // Whether `directory` is a readable checkpoint with exactly these contents.
  bool is_in(const std::filesystem::path& directory) const {
    const auto reader = store::CheckpointReader::open(directory);
    if (!reader.ok() || !reader->verify().ok()) return false;
    bool equal = reader->head() == head && reader->job_toml() == job_toml &&
                 reader->manifest().sections.size() == contents.size();
    for (const auto& [name, bytes] : contents) {
      const auto read = reader->read(name);
      equal = equal && read.ok() && *read == bytes;
    }
    return equal;
  }
};

}  // namespace es::test
