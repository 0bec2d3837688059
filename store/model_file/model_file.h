#pragma once
// A model file: the 8 bytes "ESMODEL1", then one Cap'n Proto message of proto/schema/model.capnp.
// docs/reference/model-file.md describes its content.
//
// The reader trusts nothing in a file. The memory that it needs is proportional to the size of the
// file, and a bad file never ends the process. It checks the form of every field; whether the
// program can be executed is checked by gpu/import. An error names the file and the field, and it
// repeats no text of the file.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "proto/base/model_program.h"
#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

inline constexpr std::string_view kModelFileMark = "ESMODEL1";
inline constexpr std::uint64_t kModelBytesMax = std::uint64_t{1} << 30;
inline constexpr std::size_t kModelTextMax = 4096;  // bytes of a name or another text
inline constexpr std::size_t kModelDimsMax = 8;     // extents of a value

// Errors: not found; failure (cannot be read); refused (outside of the roots, path_roots.h); usage
// (not a model file, too large, damaged, or of a newer format).
Result<ModelProgram> read_model_file(const std::filesystem::path& file);

// Writes a new file, as a whole or not at all. Errors: refused (the file exists), usage (too
// large), failure (disk).
Status write_model_file(FileSystem& files, const std::filesystem::path& file,
                        const ModelProgram& program);

// The same for the bytes of a file. `where` names them in errors.
Result<ModelProgram> decode_model(std::string_view bytes, const std::string& where);
// Equal programs have equal bytes.
std::string encode_model(const ModelProgram& program);

}  // namespace es::store
