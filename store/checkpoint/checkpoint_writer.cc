#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/kill_point.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/direct_file.h"
#include "store/checkpoint/layout.h"
#include "store/checkpoint/removal.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The manifest of the contents, without the digests of the blocks, which are computed later.
CheckpointManifest describe(const CheckpointContents& contents) {
  CheckpointManifest manifest{
      contents.head, contents.job_toml.size(), digest_of(contents.job_toml), {}};
  for (const Section& section : contents.sections)
    manifest.sections.push_back(
        {section.name, section.bytes, std::vector<Digest>(block_count(section.bytes))});
  return manifest;
}

// Each block is read once, and is digested and written while it is in the cache of the processor.
Status write_section(WritableFile& file, const Section& section, std::span<std::byte> buffer,
                     std::vector<Digest>& blocks) {
  for (std::uint64_t b = 0; b < blocks.size(); ++b) {
    const std::uint64_t at = b * kCheckpointBlockBytes;
    const auto block = buffer.first(std::min(kCheckpointBlockBytes, section.bytes - at));
    ES_RETURN_IF_ERROR(section.read(at, block));
    blocks[b] = digest_of(block);
    ES_RETURN_IF_ERROR(file.append(block));
  }
  return {};
}

Status write_data(FileSystem& files, const fs::path& path, std::span<const Section> sections,
                  CheckpointManifest& manifest) {
  const Result<std::unique_ptr<WritableFile>> file = files.create_large_file(path);
  if (!file) return file.error();
  // One aligned block. Full blocks at an aligned end of the file go to the disk from here without
  // another copy; after a section with an odd size the file copies them through its own buffer.
  const DirectBuffer buffer(kCheckpointBlockBytes);
  for (std::size_t s = 0; s < sections.size(); ++s)
    ES_RETURN_IF_ERROR(
        write_section(**file, sections[s], buffer.bytes(), manifest.sections[s].blocks));
  return (*file)->finish();
}

Status write_text(FileSystem& files, const fs::path& path, std::string_view text) {
  const Result<std::unique_ptr<WritableFile>> file = files.create_file(path);
  if (!file) return file.error();
  ES_RETURN_IF_ERROR((*file)->append(as_bytes(text)));
  return (*file)->finish();
}

Status check_parent(const fs::path& target) {
  std::error_code code;
  if (fs::is_directory(target.parent_path(), code)) return {};
  return not_found(target.parent_path().string() +
                   ": no such directory, to write a checkpoint into");
}

Status check_new(const fs::path& target) {
  std::error_code code;
  // A symbolic link without a target is also in the way, so the link itself is looked at.
  if (!fs::exists(fs::symlink_status(target, code))) return {};
  return refused(target.string() + ": exists already: allowed is a new name");
}

}  // namespace

Section section_of(std::string name, std::span<const std::byte> bytes) {
  return {std::move(name), bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> out) {
            if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
            return Status();
          }};
}

CheckpointDraft::CheckpointDraft(CheckpointDraft&& other) noexcept
    : files_(other.files_),
      partial_(std::exchange(other.partial_, {})),
      head_(std::move(other.head_)) {}

CheckpointDraft::~CheckpointDraft() {
  // If the files cannot be removed, they stay like those of a writer that was killed.
  if (!partial_.empty()) (void)remove_own_files(files_, partial_);
}

Result<CheckpointDraft> CheckpointDraft::write(FileSystem& files, const fs::path& directory,
                                               const CheckpointContents& contents) {
  // Wrong names and sizes are found before any file exists.
  if (const Status valid = validate(describe(contents)); !valid.ok())
    return usage_error(directory.string() + ": " + valid.error().message);
  const fs::path target = normal_path(directory);
  ES_RETURN_IF_ERROR(check_parent(target));
  // The draft lies in the same parent, because a rename is atomic only within one file system. Its
  // name begins with a dot, so that no search takes it for a checkpoint.
  const fs::path prefix = target.parent_path() / ("." + target.filename().string() + ".partial-");
  const Result<fs::path> partial = files.make_unique_directory(prefix);
  if (!partial) return partial.error();
  kill_point("checkpoint.begin");
  CheckpointDraft draft(files, *partial, contents.head);
  if (const Status filled = draft.fill(contents); !filled.ok())
    return draft.give_up(filled.error());
  return draft;
}

// The manifest is written last, because it contains the digests of the data. The rename of
// publish() may only follow when the files and the entries of the directory are on disk: a name
// that reaches the disk earlier would be a checkpoint with missing parts after a power cut.
Status CheckpointDraft::fill(const CheckpointContents& contents) {
  CheckpointManifest manifest = describe(contents);
  ES_RETURN_IF_ERROR(write_data(files_, partial_ / kDataFile, contents.sections, manifest));
  kill_point("checkpoint.middle");
  // The digests of the head are computed while the sections are written, so they are complete only
  // here.
  if (contents.complete) ES_RETURN_IF_ERROR(contents.complete(head_));
  manifest.head = head_;
  ES_RETURN_IF_ERROR(write_text(files_, partial_ / kJobTomlFile, contents.job_toml));
  ES_RETURN_IF_ERROR(write_text(files_, partial_ / kManifestFile, encode_manifest(manifest)));
  return files_.sync_directory(partial_);
}

Status CheckpointDraft::verify() const {
  const auto reader = CheckpointReader::open(partial_);
  return reader ? reader->verify() : Status(reader.error());
}

Status CheckpointDraft::publish(const fs::path& directory) {
  const fs::path target = normal_path(directory);
  ES_CHECK(target.parent_path() == partial_.parent_path());
  kill_point("checkpoint.rename");
  // rename() would replace an empty directory of this name, so the name is tested first. If it is
  // made in between with a file in it, rename() itself refuses.
  ES_RETURN_IF_ERROR(check_new(target));
  ES_RETURN_IF_ERROR(files_.rename_directory(partial_, target));
  kill_point("checkpoint.renamed");
  // Until the parent is on disk, the draft still counts as unpublished, so an error removes it
  // under its new name.
  partial_ = target;
  ES_RETURN_IF_ERROR(files_.sync_directory(target.parent_path()));
  partial_.clear();
  return {};
}

Error CheckpointDraft::give_up(Error error) {
  const auto removed = remove_own_files(files_, std::exchange(partial_, {}));
  if (!removed) error.message += "; in addition, " + removed.error().message;
  return error;
}

Status check_free(const fs::path& directory) {
  const fs::path target = normal_path(directory);
  ES_RETURN_IF_ERROR(check_new(target));
  return check_parent(target);
}

Status write_checkpoint(FileSystem& files, const fs::path& directory,
                        const CheckpointContents& contents) {
  // The name is tested before anything is written, because writing can take long. publish() tests
  // it again.
  ES_RETURN_IF_ERROR(check_free(directory));
  Result<CheckpointDraft> draft = CheckpointDraft::write(files, directory, contents);
  if (!draft) return draft.error();
  const Status published = draft->publish(directory);
  return published.ok() ? published : Status(draft->give_up(published.error()));
}

}  // namespace es::store
