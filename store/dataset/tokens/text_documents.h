#pragma once
// Documents in files, read in parts of bounded size.
//
// A file whose name ends in .jsonl or .ndjson (and .gz) has a JSON object in each line, and one
// field of it is a document. Every other file is one document. Gzip files are decompressed.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// A document of more bytes is divided, at a line end between two characters that are not white
// space if there is one, otherwise at another line end, before a space, or between two characters.
inline constexpr std::size_t kPartBytesMax = std::size_t{4} << 20;
// A line of JSON may have this many bytes; its document is not divided.
inline constexpr std::size_t kJsonLineBytesMax = std::size_t{16} << 20;

struct DocumentPart {
  std::string text;
  bool last = false;       // it ends its document
  std::uint64_t done = 0;  // bytes of the file up to its end
  std::string where;       // the file, and the line in it
};

bool has_json_lines(const std::filesystem::path& file);

// A place in a plain text file: the first line that begins at or behind byte (1 - share) * size, or
// the end. Errors: those of ByteSource.
Result<std::uint64_t> share_begin(const std::filesystem::path& file, double share);

// Calls `take` for the parts of a file, in their order. A plain text file is two documents if `cut`
// is inside of it. Returns false if `take` has returned false. Errors: those of ByteSource and
// `take`; usage, with the file, the line or the byte, for text that is not UTF-8, a line that is no
// object or too long, and a field that is no text.
Result<bool> read_documents(const std::filesystem::path& file, const std::string& field,
                            std::uint64_t cut,
                            const std::function<Result<bool>(const DocumentPart&)>& take);

}  // namespace es::store
