#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "proto/base/check.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/direct_file.h"
#include "store/checkpoint/layout.h"
#include "store/path_roots.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Result<File> open_file(const fs::path& path) {
  File file(std::fopen(path.c_str(), "rb"));
  const int code = errno;
  // The roots are checked on the opened file, and also if opening failed. Otherwise the error would
  // tell a client whether a file outside of the roots exists.
  ES_RETURN_IF_ERROR(check_opened(RootKind::kCheckpoints, path, file ? ::fileno(file.get()) : -1));
  if (file != nullptr) return file;
  return open_failure(path, code);
}

Result<std::uint64_t> file_bytes(const fs::path& path) {
  std::error_code code;
  const std::uint64_t bytes = fs::file_size(path, code);
  if (!code) return bytes;
  const std::string message = path.string() + ": cannot be read: " + code.message();
  return code == std::errc::no_such_file_or_directory ? not_found(message) : failure(message);
}

Error cut_short(const fs::path& path) {
  return usage_error(path.string() + ": damaged: the file is shorter than it was");
}

Status read_exactly(std::FILE* file, const fs::path& path, std::span<std::byte> out) {
  if (std::fread(out.data(), 1, out.size(), file) == out.size()) return {};
  // An error of the disk may pass, so it is a failure. A file that ends too early is damaged,
  // whatever the disk does later.
  if (std::ferror(file) != 0) return system_failure(path, "be read", errno);
  return cut_short(path);
}

// Reads a small file as a whole. The size is checked before memory is allocated.
Result<std::string> read_text(const fs::path& path, std::uint64_t bytes_max) {
  const Result<std::uint64_t> bytes = file_bytes(path);
  if (!bytes) return bytes.error();
  if (*bytes > bytes_max)
    return usage_error(path.string() + ": bytes = " + std::to_string(*bytes) +
                       ": allowed is at most " + std::to_string(bytes_max));
  const Result<File> file = open_file(path);
  if (!file) return file.error();
  std::string text(*bytes, '\0');
  ES_RETURN_IF_ERROR(
      read_exactly(file->get(), path, std::as_writable_bytes(std::span(text.data(), *bytes))));
  return text;
}

Status check_block(const fs::path& path, const SectionInfo& section, std::uint64_t block,
                   const Digest& found) {
  const Digest& expected = section.blocks[block];
  if (found == expected) return {};
  return usage_error(path.string() + ": damaged: section \"" + section.name + "\", block " +
                     std::to_string(block) + ": digest = " + found.hex() + ": allowed is " +
                     expected.hex());
}

std::uint64_t block_bytes(const SectionInfo& section, std::uint64_t block) {
  return std::min(kCheckpointBlockBytes, section.bytes - block * kCheckpointBlockBytes);
}

Result<Digest> digest_of_next(DirectReader& file, const fs::path& path, std::uint64_t bytes) {
  DigestBuilder digest;
  while (bytes > 0) {
    const auto piece = file.next(bytes);
    if (!piece) return piece.error();
    if (piece->empty()) return cut_short(path);
    digest.add(*piece);
    bytes -= piece->size();
  }
  return digest.finish();
}

}  // namespace

CheckpointReader::CheckpointReader(fs::path directory, CheckpointManifest manifest,
                                   std::string job_toml)
    : directory_(std::move(directory)),
      manifest_(std::move(manifest)),
      job_toml_(std::move(job_toml)) {}

Result<CheckpointReader> CheckpointReader::open(const fs::path& directory) {
  // Before anything is looked up, so that "no such checkpoint directory" is never said of a place
  // outside of the roots.
  ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, directory));
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    return not_found(directory.string() + ": no such checkpoint directory");
  const fs::path manifest_path = directory / kManifestFile;
  const Result<std::string> text = read_text(manifest_path, kManifestBytesMax);
  if (!text) return text.error();
  Result<CheckpointManifest> manifest = decode_manifest(*text, manifest_path.string());
  if (!manifest) return manifest.error();

  const fs::path toml_path = directory / kJobTomlFile;
  Result<std::string> job_toml = read_text(toml_path, kJobTomlBytesMax);
  if (!job_toml) return job_toml.error();
  if (job_toml->size() != manifest->job_toml_bytes ||
      digest_of(std::string_view(*job_toml)) != manifest->job_toml_digest)
    return usage_error(toml_path.string() +
                       ": damaged: not the text whose digest the manifest has");

  const fs::path data_path = directory / kDataFile;
  const Result<std::uint64_t> bytes = file_bytes(data_path);
  if (!bytes) return bytes.error();
  // The size is compared at once, because it is cheap. The blocks are verified when they are read.
  if (*bytes != manifest->data_bytes())
    return usage_error(data_path.string() + ": damaged: bytes = " + std::to_string(*bytes) +
                       ": allowed is " + std::to_string(manifest->data_bytes()) +
                       ", as the manifest says");
  return CheckpointReader(directory, std::move(*manifest), std::move(*job_toml));
}

const SectionInfo* CheckpointReader::find(std::string_view name) const {
  const auto found = std::find_if(manifest_.sections.begin(), manifest_.sections.end(),
                                  [&](const SectionInfo& s) { return s.name == name; });
  return found == manifest_.sections.end() ? nullptr : &*found;
}

Result<std::vector<std::byte>> CheckpointReader::read(std::string_view name) const {
  const SectionInfo* section = find(name);
  std::vector<std::byte> bytes(section == nullptr ? 0 : section->bytes);
  ES_RETURN_IF_ERROR(read_into(name, bytes));
  return bytes;
}

Status CheckpointReader::read_into(std::string_view name, std::span<std::byte> out) const {
  const auto place = [&](std::uint64_t offset, std::uint64_t bytes) {
    return out.subspan(offset, bytes);
  };
  // After an error `out` contains some blocks of the checkpoint. The caller must not use them.
  return read_blocks(name, out.size(), place, [](std::uint64_t, std::span<const std::byte>) {});
}

Status CheckpointReader::visit(std::string_view name, std::uint64_t bytes,
                               const Visit& visit) const {
  std::vector<std::byte> block(std::min(bytes, kCheckpointBlockBytes));
  const auto place = [&](std::uint64_t, std::uint64_t size) {
    return std::span(block).first(size);
  };
  return read_blocks(name, bytes, place, visit);
}

Status CheckpointReader::read_blocks(std::string_view name, std::uint64_t bytes, const Place& place,
                                     const Visit& visit) const {
  std::uint64_t offset = 0;
  auto section = manifest_.sections.begin();
  for (; section != manifest_.sections.end() && section->name != name; ++section)
    offset += section->bytes;
  const fs::path path = directory_ / kDataFile;
  if (section == manifest_.sections.end())
    return not_found(path.string() + ": no section \"" + std::string(name) + '"');
  // The size in the file is compared with the size that the job expects, so a checkpoint of another
  // model is refused before its bytes are used.
  if (section->bytes != bytes)
    return usage_error(path.string() + ": section \"" + section->name +
                       "\": bytes = " + std::to_string(section->bytes) + ": allowed is " +
                       std::to_string(bytes) + ", for this job");
  const Result<File> file = open_file(path);
  if (!file) return file.error();
  if (fseeko(file->get(), static_cast<off_t>(offset), SEEK_SET) != 0)
    return system_failure(path, "be read", errno);
  for (std::uint64_t b = 0; b < section->blocks.size(); ++b) {
    const std::uint64_t at = b * kCheckpointBlockBytes;
    const std::span<std::byte> block = place(at, block_bytes(*section, b));
    ES_RETURN_IF_ERROR(read_exactly(file->get(), path, block));
    ES_RETURN_IF_ERROR(check_block(path, *section, b, digest_of(block)));
    visit(at, block);
  }
  return {};
}

Status CheckpointReader::verify() const {
  const fs::path path = directory_ / kDataFile;
  Result<DirectReader> file = DirectReader::open(path);
  if (!file) return file.error();
  // The sections follow each other without gaps in the order of the manifest, so one pass from the
  // beginning reads all of them. Blocks begin anew with each section.
  for (const SectionInfo& section : manifest_.sections)
    for (std::uint64_t b = 0; b < section.blocks.size(); ++b) {
      const Result<Digest> found = digest_of_next(*file, path, block_bytes(section, b));
      if (!found) return found.error();
      ES_RETURN_IF_ERROR(check_block(path, section, b, *found));
    }
  return {};
}

}  // namespace es::store
