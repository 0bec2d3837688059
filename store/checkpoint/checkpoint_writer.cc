#include <algorithm>

#include "proto/base/kill_point.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/layout.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

SectionInfo describe(const Section& section) {
  SectionInfo info{section.name, section.bytes.size(), {}};
  for (std::size_t at = 0; at < section.bytes.size(); at += kCheckpointBlockBytes)
    info.blocks.push_back(digest_of(section.bytes.subspan(
        at, std::min<std::size_t>(kCheckpointBlockBytes, section.bytes.size() - at))));
  return info;
}

Status write_file(FileSystem& files, const fs::path& path,
                  const std::vector<std::span<const std::byte>>& pieces) {
  Result<std::unique_ptr<WritableFile>> file = files.create_file(path);
  if (!file) return file.error();
  for (const auto& piece : pieces) ES_RETURN_IF_ERROR((*file)->append(piece));
  return (*file)->finish();
}

Status fill_directory(FileSystem& files, const fs::path& directory, std::string_view manifest,
                      std::string_view job_toml, std::span<const Section> sections) {
  std::vector<std::span<const std::byte>> data;
  for (const Section& section : sections) data.push_back(section.bytes);
  ES_RETURN_IF_ERROR(write_file(files, directory / kDataFile, data));
  kill_point("checkpoint.middle");
  ES_RETURN_IF_ERROR(write_file(files, directory / kJobTomlFile, {as_bytes(job_toml)}));
  ES_RETURN_IF_ERROR(write_file(files, directory / kManifestFile, {as_bytes(manifest)}));
  return files.sync_directory(directory);
}

// What was to be written is given up: removes it, and says so if even that fails.
Error give_up(FileSystem& files, const fs::path& directory, Error error) {
  if (const Status removed = files.remove_tree(directory); !removed.ok())
    error.message += "; in addition, " + removed.error().message;
  return error;
}

Status check_target(const fs::path& target) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(target, code)))
    return refused(target.string() + ": exists already: allowed is a new name");
  if (!fs::is_directory(target.parent_path(), code))
    return not_found(target.parent_path().string() +
                     ": no such directory, to write a checkpoint into");
  return {};
}

}  // namespace

Status write_checkpoint(FileSystem& files, const fs::path& directory, const CheckpointHead& head,
                        std::string_view job_toml, std::span<const Section> sections) {
  CheckpointManifest manifest{head, job_toml.size(), digest_of(job_toml), {}};
  for (const Section& section : sections) manifest.sections.push_back(describe(section));
  if (const Status valid = validate(manifest); !valid.ok())
    return usage_error(directory.string() + ": " + valid.error().message);

  const fs::path target = normal_path(directory);
  ES_RETURN_IF_ERROR(check_target(target));
  const fs::path prefix = target.parent_path() / ("." + target.filename().string() + ".partial-");
  const Result<fs::path> partial = files.make_unique_directory(prefix);
  if (!partial) return partial.error();
  kill_point("checkpoint.begin");
  Status status = fill_directory(files, *partial, encode_manifest(manifest), job_toml, sections);
  kill_point("checkpoint.rename");
  if (status.ok()) status = files.rename_directory(*partial, target);
  kill_point("checkpoint.renamed");
  if (!status.ok()) return give_up(files, *partial, status.error());
  status = files.sync_directory(target.parent_path());
  if (!status.ok()) return give_up(files, target, status.error());
  return {};
}

}  // namespace es::store
