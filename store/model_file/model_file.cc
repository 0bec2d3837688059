#include "store/model_file/model_file.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "store/byte_source.h"
#include "store/checkpoint/new_file.h"
#include "store/model_file/model_wire.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// The schema has five levels, and a program of an update has them again, two levels further down.
constexpr int kModelNestingMax = 14;

Error no_model_file(const std::string& where, const std::string& what) {
  return usage_error(where + ": " + what +
                     ": allowed is a model file, as `esctl models pack` writes it");
}

// A message which uses parts many times is refused. A pointer into another segment of a message
// counts its landing pad again, so the limit is above the words of the file.
capnp::ReaderOptions model_reader_options(std::size_t words) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words + words / 2 + 16;
  options.nestingLimit = kModelNestingMax;
  return options;
}

Result<ModelProgram> decode_message(kj::ArrayPtr<const capnp::word> words,
                                    const std::string& where) {
  try {
    capnp::FlatArrayMessageReader reader(words, model_reader_options(words.size()));
    // Bytes behind the message would not be covered by the digest of the model.
    if (reader.getEnd() != words.end())
      return no_model_file(where, "its message is followed by other bytes");
    return program_of(reader.getRoot<wire::Model>(), where);
  } catch (const kj::Exception&) {
    // Cap'n Proto reports damage by exceptions. The message says nothing of the content, because
    // the user who named the file may not be allowed to read it.
    return no_model_file(where, "its message is damaged or cut off");
  }
}

}  // namespace

Result<ModelProgram> decode_model(std::string_view bytes, const std::string& where) {
  if (!bytes.starts_with(kModelFileMark))
    return no_model_file(where, "does not begin with " + std::string(kModelFileMark));
  const std::string_view message = bytes.substr(kModelFileMark.size());
  // A message consists of whole words of 8 bytes.
  if (message.size() % sizeof(capnp::word) != 0)
    return no_model_file(where, "is cut off after " + std::to_string(bytes.size()) + " bytes");
  // A copy, because a message has to begin at a multiple of 8 bytes.
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(message.size() / sizeof(capnp::word));
  if (!message.empty()) std::memcpy(words.asBytes().begin(), message.data(), message.size());
  return decode_message(words.asPtr(), where);
}

Result<ModelProgram> read_model_file(const fs::path& file) {
  auto source = ByteSource::open(file);
  if (!source) return source.error();
  // The expanded size of a compressed file is not known in advance, so the limit below could not be
  // checked before memory is allocated.
  const std::optional<std::uint64_t> size = source->plain_bytes();
  if (!size) return no_model_file(file.string(), "is compressed");
  if (*size > kModelBytesMax)
    return usage_error(file.string() + ": " + std::to_string(*size) +
                       " bytes: allowed are at most " + std::to_string(kModelBytesMax));
  std::string bytes(*size, '\0');
  const auto got = source->read({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  if (!got) return got.error();
  bytes.resize(*got);
  return decode_model(bytes, file.string());
}

std::string encode_model(const ModelProgram& program) {
  capnp::MallocMessageBuilder message;
  fill_message(message.initRoot<wire::Model>(), program);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto chars = words.asChars();
  std::string bytes(kModelFileMark);
  bytes.append(chars.begin(), chars.size());
  return bytes;
}

Status write_model_file(FileSystem& files, const fs::path& file, const ModelProgram& program) {
  const std::string bytes = encode_model(program);
  if (bytes.size() > kModelBytesMax)
    return usage_error(file.string() + ": a model of " + std::to_string(bytes.size()) +
                       " bytes: allowed are at most " + std::to_string(kModelBytesMax));
  return write_new_file(
      files, file, [&](WritableFile& out) { return out.append(std::as_bytes(std::span(bytes))); });
}

}  // namespace es::store
