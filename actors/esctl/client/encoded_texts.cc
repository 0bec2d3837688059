#include "actors/esctl/client/encoded_texts.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "proto/base/digest.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEncodedShardTokens = std::uint64_t{1} << 24;
constexpr std::uint64_t kEncodedFormat = 1;          // of the digest
constexpr const char* kDescription = "tokens.json";  // in every directory of tokens

fs::path place_of_all(const fs::path& job_file) {
  std::error_code code;
  return fs::absolute(job_file, code).replace_extension(".tokens");
}

bool is_digest(const std::string& name) {
  return name.size() == Digest().hex().size() &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_text(const fs::path& file) {
  const fs::path name = file.extension() == ".gz" ? file.stem() : file;
  const std::string kind = name.extension().string();
  return kind == ".txt" || kind == ".jsonl" || kind == ".ndjson";
}

// The file, or the texts of the directory in the order of the bytes of their names.
Result<std::vector<fs::path>> text_files(const DataSpec& data) {
  std::error_code code;
  if (!fs::is_directory(data.path, code)) return std::vector<fs::path>{data.path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(data.path, code))
    if (entry.is_regular_file(code) && is_text(entry.path())) files.push_back(entry.path());
  if (files.empty())
    return usage_error("data.path = \"" + data.path +
                       "\": allowed is a file of text, or a directory with files *.txt, *.jsonl or "
                       "*.ndjson, also with .gz");
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.string(); });
  return files;
}

Status add_content(DigestBuilder& digest, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  std::uint64_t bytes = 0;
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    digest.add(piece.data(), static_cast<std::size_t>(file.gcount()));
    bytes += static_cast<std::uint64_t>(file.gcount());
  }
  digest.add_u64(bytes);
  if (file.eof()) return {};
  return not_found(path.string() + ": cannot be read");
}

// The digest of everything that decides the tokens. Of the names of the files only their kinds do.
Result<Digest> encoding_digest(const DataSpec& data, const std::vector<fs::path>& files) {
  DigestBuilder digest;
  digest.add_u64(kEncodedFormat);
  digest.add_text(data.text_field);
  digest.add_text(data.append_token);
  digest.add(&data.eval_share, sizeof data.eval_share);
  ES_RETURN_IF_ERROR(add_content(digest, data.tokenizer));
  for (const fs::path& file : files) {
    digest.add_text(file.extension().string());
    digest.add_text(file.stem().extension().string());
    ES_RETURN_IF_ERROR(add_content(digest, file));
  }
  return digest.finish();
}

// The name of the directory for the texts of a job.
Result<std::string> directory_name(const DataSpec& data, const std::vector<fs::path>& files) {
  const auto digest = encoding_digest(data, files);
  if (!digest) return digest.error();
  return digest->hex();
}

Status write_tokens(const DataSpec& data, std::vector<fs::path> files, const fs::path& out,
                    const store::TokenSetProgress& progress) {
  const auto tokenizer = store::Tokenizer::read(data.tokenizer);
  if (!tokenizer) return tokenizer.error();
  store::TokenSetRequest request{.texts = std::move(files),
                                 .out = out,
                                 .field = data.text_field.empty() ? "text" : data.text_field,
                                 .eval_share = data.eval_share,
                                 .shard_tokens = kEncodedShardTokens};
  if (!data.append_token.empty()) {
    request.appended = tokenizer->find(data.append_token);
    if (!request.appended)
      return usage_error("data.append_token = \"" + data.append_token +
                         "\": allowed is a token of " + data.tokenizer);
  }
  const auto counts =
      store::write_token_set(store::posix_file_system(), *tokenizer, request, progress);
  if (!counts) return counts.error();
  return *counts ? Status() : Status(failure("the encoding of the texts was stopped"));
}

std::uint64_t bytes_in(const fs::path& directory) {
  std::error_code code;
  std::uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory, code))
    if (entry.is_regular_file(code)) bytes += entry.file_size(code);
  return bytes;
}

}  // namespace

Status encode_texts(JobSpec& spec, const fs::path& job_file,
                    const store::TokenSetProgress& progress) {
  if (spec.data.kind != "texts") return {};
  auto files = text_files(spec.data);
  if (!files) return files.error();
  const auto name = directory_name(spec.data, *files);
  if (!name) return name.error();
  std::error_code code;
  const fs::path parent = place_of_all(job_file);
  const fs::path place = parent / *name;
  if (!fs::exists(place, code)) {
    fs::create_directories(parent, code);
    if (code) return failure(parent.string() + ": cannot be made: " + code.message());
    ES_RETURN_IF_ERROR(write_tokens(spec.data, *std::move(files), place, progress));
  }
  const DataSpec none;
  spec.data.kind = "tokens";
  spec.data.path = place.string();
  spec.data.tokenizer = none.tokenizer;
  spec.data.text_field = none.text_field;
  spec.data.append_token = none.append_token;
  spec.data.eval_share = none.eval_share;
  return {};
}

Result<std::vector<EncodedTexts>> encoded_texts(const fs::path& job_file, const JobSpec* spec) {
  std::string current;
  if (spec != nullptr && spec->data.kind == "texts") {
    const auto files = text_files(spec->data);
    if (!files) return files.error();
    const auto name = directory_name(spec->data, *files);
    if (!name) return name.error();
    current = *name;
  }
  std::vector<EncodedTexts> found;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(place_of_all(job_file), code)) {
    const std::string name = entry.path().filename().string();
    // Other files in this directory may belong to the user.
    if (entry.is_symlink(code) || !is_digest(name) ||
        !fs::exists(entry.path() / kDescription, code))
      continue;
    found.push_back({entry.path(), bytes_in(entry.path()), name == current});
  }
  std::ranges::sort(found, {}, [](const EncodedTexts& texts) { return texts.directory.string(); });
  return found;
}

Status remove_encoded_texts(const fs::path& job_file, const std::vector<EncodedTexts>& texts) {
  std::error_code code;
  for (const EncodedTexts& each : texts) {
    fs::remove_all(each.directory, code);
    if (code) return failure(each.directory.string() + ": cannot be removed: " + code.message());
  }
  // It stays if something is left in it.
  fs::remove(place_of_all(job_file), code);
  return {};
}

}  // namespace es::actors::esctl
