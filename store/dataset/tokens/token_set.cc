#include "store/dataset/tokens/token_set.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "store/byte_source.h"
#include "store/dataset/tokens/text_documents.h"
#include "store/field_error.h"
#include "store/file_bytes.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kNarrowIds = 1 << 16;
constexpr std::uint64_t kDescriptionBytesMax = 1 << 20;
constexpr int kDescriptionFormat = 1;
constexpr const char* kDescriptionName = "tokens.json";

// A directory that is removed with its content unless it has been given its name.
class Staging {
 public:
  explicit Staging(fs::path directory) : directory_(std::move(directory)) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }

  const fs::path& path() const { return directory_; }
  Status publish(FileSystem& files, const fs::path& to) {
    ES_RETURN_IF_ERROR(files.sync_directory(directory_));
    ES_RETURN_IF_ERROR(files.rename_directory(directory_, to));
    directory_.clear();
    return sync_name(files, to);
  }

 private:
  fs::path directory_;
};

// One half of the set while it is written.
struct HalfWriter {
  TokenWriter writer;
  std::uint64_t documents = 0;

  TokenHalfCounts counts() const { return {documents, writer.tokens(), writer.shards()}; }
};

class TokenSetWriter {
 public:
  TokenSetWriter(FileSystem& files, const Tokenizer& tokenizer, const TokenSetRequest& request,
                 const TokenSetProgress& progress, const fs::path& directory)
      : tokenizer_(tokenizer),
        request_(request),
        progress_(progress),
        wide_(tokenizer.size() > kNarrowIds),
        train_{{files, directory / "train", wide_, request.shard_tokens}},
        eval_{{files, directory / "eval", wide_, request.shard_tokens}} {}

  // Returns false if the work was ended.
  Result<bool> write_all() {
    ES_RETURN_IF_ERROR(measure());
    for (const fs::path& file : request_.texts) {
      const auto whole = write_file(file);
      if (!whole || !*whole) return whole;
    }
    ES_RETURN_IF_ERROR(train_.writer.finish());
    ES_RETURN_IF_ERROR(eval_.writer.finish());
    if (train_.writer.tokens() > 0) return true;
    return bad_field(request_.texts.front().string(), "number of tokens for the training", "0",
                     "at least 1");
  }

  TokenSetCounts counts() const { return {text_bytes_, train_.counts(), eval_.counts(), wide_}; }

 private:
  // Finds the files before the work begins, and their sizes.
  Status measure() {
    bool known = true;
    for (const fs::path& file : request_.texts) {
      const auto source = ByteSource::open(file);
      if (!source) return source.error();
      known = known && source->plain_bytes().has_value();
      total_ += source->plain_bytes().value_or(0);
    }
    if (!known) total_ = 0;
    return {};
  }

  Result<bool> write_file(const fs::path& file) {
    const bool lines = has_json_lines(file);
    std::uint64_t cut = ~std::uint64_t{0};
    if (!lines && request_.eval_share > 0) {
      const auto begin = share_begin(file, request_.eval_share);
      if (!begin) return begin.error();
      cut = *begin;
    }
    std::uint64_t done_in_file = 0;
    bool first_part = true, for_eval = false;
    const auto written =
        read_documents(file, request_.field, cut, [&](const DocumentPart& part) -> Result<bool> {
          if (first_part) for_eval = lines ? next_line_is_for_eval() : done_in_file >= cut;
          first_part = part.last;
          done_in_file = part.done;
          ES_RETURN_IF_ERROR(add(part, for_eval ? eval_ : train_));
          return progress_(done_ + done_in_file, total_);
        });
    done_ += done_in_file;
    return written;
  }

  // Whether one more document brings the evaluation nearer to its share.
  bool next_line_is_for_eval() {
    const auto due = [&](std::uint64_t lines) {
      return std::floor(static_cast<double>(lines) * request_.eval_share);
    };
    ++lines_;
    return due(lines_) > due(lines_ - 1);
  }

  Status add(const DocumentPart& part, HalfWriter& half) {
    text_bytes_ += part.text.size();
    ids_.clear();
    const Status encoded = tokenizer_.encode(part.text, false, cache_, ids_);
    if (!encoded.ok())
      return Error{encoded.error().kind, part.where + ": " + encoded.error().message};
    if (part.last) ++half.documents;
    if (part.last && request_.appended) ids_.push_back(*request_.appended);
    return half.writer.add(ids_);
  }

  const Tokenizer& tokenizer_;
  const TokenSetRequest& request_;
  const TokenSetProgress& progress_;
  bool wide_;
  HalfWriter train_, eval_;
  WordCache cache_;
  std::vector<std::uint32_t> ids_;
  std::uint64_t lines_ = 0;       // of JSON, in all files
  std::uint64_t text_bytes_ = 0;  // of the documents
  std::uint64_t done_ = 0, total_ = 0;
};

Json half_json(const TokenHalfCounts& half) {
  return {{"documents", half.documents}, {"tokens", half.tokens}, {"shards", half.shards}};
}

std::string description(const Tokenizer& tokenizer, const TokenSetRequest& request,
                        const TokenSetCounts& counts) {
  Json json{{"format", kDescriptionFormat},     {"tokenizer_digest", tokenizer.digest().hex()},
            {"vocabulary", tokenizer.size()},   {"token_type", counts.wide ? "uint32" : "uint16"},
            {"appended_token", nullptr},        {"text_bytes", counts.text_bytes},
            {"train", half_json(counts.train)}, {"eval", half_json(counts.eval)}};
  if (request.appended) json["appended_token"] = *request.appended;
  return json.dump(2) + "\n";
}

Status write_text(FileSystem& files, const fs::path& file, const std::string& text) {
  auto out = files.create_file(file);
  if (!out) return out.error();
  ES_RETURN_IF_ERROR((*out)->append(std::as_bytes(std::span(text))));
  return (*out)->finish();
}

Status check_free_place(const fs::path& out) {
  if (out.empty()) return refused("the directory for token files \"\": allowed is a new name");
  std::error_code code;
  if (!fs::exists(fs::symlink_status(out, code))) return {};
  return refused(out.string() + ": exists already: allowed is a new name");
}

}  // namespace

Result<std::optional<TokenSetCounts>> write_token_set(FileSystem& files, const Tokenizer& tokenizer,
                                                      const TokenSetRequest& request,
                                                      const TokenSetProgress& progress) {
  // "DIR/" means the same as "DIR".
  const fs::path out = request.out.has_filename() ? request.out : request.out.parent_path();
  ES_RETURN_IF_ERROR(check_free_place(out));
  auto directory = files.make_unique_directory(out.string() + ".unfinished-");
  if (!directory) return directory.error();
  Staging staging(*std::move(directory));
  TokenSetWriter writer(files, tokenizer, request, progress, staging.path());
  const auto whole = writer.write_all();
  if (!whole) return whole.error();
  if (!*whole) return std::optional<TokenSetCounts>();
  const TokenSetCounts counts = writer.counts();
  ES_RETURN_IF_ERROR(write_text(files, staging.path() / kDescriptionName,
                                description(tokenizer, request, counts)));
  ES_RETURN_IF_ERROR(staging.publish(files, out));
  return std::optional(counts);
}

Result<std::optional<TokenSetDescription>> read_token_set_description(const fs::path& directory) {
  const fs::path file = directory / kDescriptionName;
  std::error_code code;
  if (!fs::exists(file, code)) return std::optional<TokenSetDescription>();
  const auto text = file_bytes(file, kDescriptionBytesMax);
  if (!text) return text.error();
  const Json json = Json::parse(*text, nullptr, false);
  const bool good = json.is_object() && json.value("format", Json()) == kDescriptionFormat &&
                    json.value("tokenizer_digest", Json()).is_string() &&
                    json.value("vocabulary", Json()).is_number_unsigned();
  if (!good)
    return bad_content(file.string(), "the content", "format 1, as esctl data tokenize writes it");
  return std::optional(TokenSetDescription{json["tokenizer_digest"].get<std::string>(),
                                           json["vocabulary"].get<std::uint64_t>()});
}

}  // namespace es::store
