#include "store/dataset/arrays/npz_file.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zip.h>

#include <array>
#include <bit>
#include <cerrno>
#include <system_error>

#include "store/field_error.h"

namespace es::store {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
constexpr std::size_t kPieceBytes = 1 << 16;
constexpr std::size_t kNpyHeaderMultiple = 64;  // of the bytes before the first element

std::string open_error_text(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Status write_all(int descriptor, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failure("unpacking: " + std::generic_category().message(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

// The header of a NumPy file of version 1, padded with spaces, and the elements.
std::string npy_bytes_of(const NpzArray& array) {
  std::string shape;
  for (const std::uint64_t extent : array.shape) shape += std::to_string(extent) + ", ";
  std::string literal = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t kPrefix = 10;  // the mark, the version and the length
  // One byte more for the line feed that ends the literal.
  const std::size_t unpadded = kPrefix + literal.size() + 1;
  literal.append((kNpyHeaderMultiple - unpadded % kNpyHeaderMultiple) % kNpyHeaderMultiple, ' ');
  literal += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(literal.size() & 0xff);
  bytes += static_cast<char>(literal.size() >> 8);
  bytes += literal;
  const auto elements = std::as_bytes(array.values);
  return bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size());
}

// Adds an entry whose bytes stay valid until the archive is closed. Returns false on an error.
bool add_entry(zip_t* archive, const std::string& entry, const std::string& bytes) {
  zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  if (source == nullptr) return false;
  const zip_int64_t index = zip_file_add(archive, entry.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return false;
  }
  const auto at = static_cast<zip_uint64_t>(index);
  // A fixed time makes equal arrays equal files.
  return zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) == 0 &&
         zip_file_set_mtime(archive, at, 0, 0) == 0;
}

}  // namespace

Result<NpzFile> NpzFile::open(const std::filesystem::path& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive && code == ZIP_ER_NOENT) return not_found(path.string() + ": there is no such file");
  if (!archive)
    return usage_error(path.string() +
                       ": is no archive of NumPy arrays (.npz): " + open_error_text(code));
  return NpzFile(path.string(), std::move(archive));
}

Result<NpyFile> NpzFile::unpack(const std::string& name) const {
  const std::string where = file_ + "[" + name + "]";
  auto memory = std::make_unique<const FileDescriptor>(::memfd_create("array", MFD_CLOEXEC));
  if (memory->get() < 0)
    return failure(where + ": no memory: " + std::generic_category().message(errno));
  ES_RETURN_IF_ERROR(unpack_bytes(where, name + std::string(kNpyEnding), memory->get()));
  auto file = DataFile::adopt(where, std::move(memory));
  if (!file) return file.error();
  return NpyFile::read_from(*std::move(file));
}

Status NpzFile::unpack_bytes(const std::string& where, const std::string& entry,
                             int descriptor) const {
  zip_stat_t info;
  if (zip_stat(archive_.get(), entry.c_str(), 0, &info) != 0)
    return not_found(where + ": the archive has no such array");
  const auto damaged = [&](const char* why) { return usage_error(where + ": " + why); };
  std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> packed(
      zip_fopen(archive_.get(), entry.c_str(), 0), zip_fclose);
  if (!packed) return damaged(zip_strerror(archive_.get()));
  std::array<char, kPieceBytes> piece;
  // The size in the archive may be a lie, so the bytes themselves are counted.
  for (std::uint64_t total = 0; total <= kNpzArrayBytesMax;) {
    const zip_int64_t got = zip_fread(packed.get(), piece.data(), piece.size());
    if (got < 0) return damaged(zip_file_strerror(packed.get()));
    if (got == 0) return {};
    ES_RETURN_IF_ERROR(
        write_all(descriptor, std::span(piece).first(static_cast<std::size_t>(got))));
    total += static_cast<std::uint64_t>(got);
  }
  return bad_field(where, "bytes", "more than " + std::to_string(kNpzArrayBytesMax),
                   "at most that many");
}

Status write_npz(const std::filesystem::path& file, std::span<const NpzArray> arrays) {
  int code = 0;
  // libzip writes a temporary file beside the new one and renames it in zip_close().
  std::unique_ptr<zip_t, void (*)(zip_t*)> archive(
      zip_open(file.c_str(), ZIP_CREATE | ZIP_EXCL, &code), zip_discard);
  if (!archive && code == ZIP_ER_EXISTS)
    return refused(file.string() + ": exists already; name a new file");
  if (!archive) return failure(file.string() + ": cannot be written: " + open_error_text(code));
  std::vector<std::string> contents;
  for (const NpzArray& array : arrays) contents.push_back(npy_bytes_of(array));
  const auto fail = [&] {
    return failure(file.string() + ": cannot be written: " + zip_strerror(archive.get()));
  };
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (!add_entry(archive.get(), arrays[i].name + std::string(kNpyEnding), contents[i]))
      return fail();
  if (zip_close(archive.get()) != 0) return fail();
  static_cast<void>(archive.release());  // zip_close() has freed it.
  return {};
}

}  // namespace es::store
