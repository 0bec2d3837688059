#include "store/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "proto/base/check_ok.h"

namespace es::store {
namespace {

constexpr std::size_t kNameMax = 128;
constexpr std::uint32_t kFormatWithRun = 4;
constexpr std::string_view kNoRun = "-";

bool is_name(std::string_view name, std::string_view punctuation) {
  return !name.empty() && name.size() <= kNameMax &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  punctuation.find(c) != std::string_view::npos;
         });
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  // from_chars accepts neither a sign for unsigned numbers nor spaces. It accepts leading zeros;
  // the comparison at the end of decode_manifest refuses those.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string last_line(std::string_view body) {
  return "end " + digest_of(body).hex() + "\n";
}

// Takes lines "KEYWORD ARGUMENT..." from a text in the expected order. The first line that differs
// sets the error; after that all functions return zero or empty values.
class LineReader {
 public:
  LineReader(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  std::string_view text(std::string_view keyword) {
    const std::size_t end = rest_.find('\n');
    const bool fits = end != std::string_view::npos && end > keyword.size() &&
                      rest_.starts_with(keyword) && rest_[keyword.size()] == ' ';
    if (!fits) return fail(keyword);
    const std::string_view argument = rest_.substr(keyword.size() + 1, end - keyword.size() - 1);
    rest_.remove_prefix(end + 1);
    return argument;
  }
  std::uint64_t number(std::string_view keyword) { return to_number(keyword, text(keyword)); }
  Digest digest(std::string_view keyword) { return to_digest(keyword, text(keyword)); }
  // Reads "KEYWORD FIRST SECOND".
  std::pair<std::string_view, std::string_view> pair(std::string_view keyword) {
    const std::string_view both = text(keyword);
    const std::size_t space = both.find(' ');
    if (space == std::string_view::npos) return {fail(keyword), {}};
    return {both.substr(0, space), both.substr(space + 1)};
  }
  std::uint64_t to_number(std::string_view keyword, std::string_view argument) {
    const auto value = parse_number<std::uint64_t>(argument);
    if (!value) fail(keyword);
    return value.value_or(0);
  }
  Digest to_digest(std::string_view keyword, std::string_view argument) {
    const auto value = Digest::parse(argument);
    if (!value) fail(keyword);
    return value.value_or(Digest{});
  }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  std::string_view fail(std::string_view keyword) {
    if (status_.ok())
      status_ = usage_error(where_ + ": " + std::string(keyword) +
                            ": allowed is a line of the form that its format defines");
    // With an empty rest every later line fails too, so a caller may read on and test once.
    rest_ = {};
    return {};
  }

  std::string_view rest_;
  const std::string& where_;
  Status status_;
};

// REQUIRES: the text begins with kManifestFirstWord.
std::string_view version_text(std::string_view text) {
  return text.substr(kManifestFirstWord.size(), text.find('\n') - kManifestFirstWord.size());
}

// Returns 0 if the format is not one that can be read. REQUIRES: as version_text.
// Formats are compared as texts, so "04" is not format 4.
std::uint32_t format_of(std::string_view text) {
  for (std::uint32_t format = kOldestCheckpointFormat; format <= kCheckpointFormatVersion; ++format)
    if (version_text(text) == std::to_string(format)) return format;
  return 0;
}

// Returns the text before the last line, after checking the version in the first line and the
// digest in the last line.
Result<std::string_view> checked_body(std::string_view text, const std::string& where) {
  if (!text.starts_with(kManifestFirstWord))
    return usage_error(where + ": damaged: allowed is a file that begins with \"" +
                       std::string(kManifestFirstWord) + "\"");
  if (format_of(text) == 0) {
    // The error repeats no other text of the file, because the user who named the file may not be
    // allowed to read it.
    const auto number = parse_number<std::uint32_t>(version_text(text));
    return usage_error(where + ": format version = " +
                       (number ? '"' + std::to_string(*number) + '"' : "(no number)") +
                       ": allowed is " + std::to_string(kOldestCheckpointFormat) + " to " +
                       std::to_string(kCheckpointFormatVersion));
  }
  // The last line has a fixed length for every body, so it is found by its length.
  const std::size_t last_size = last_line({}).size();
  const std::string_view body = text.substr(0, text.size() - std::min(last_size, text.size()));
  if (text.substr(body.size()) != last_line(body))
    return usage_error(where + ": damaged: its text does not have the digest in its last line");
  return body;
}

SectionInfo read_section(LineReader& lines) {
  const auto [name, bytes] = lines.pair("section");
  SectionInfo section{std::string(name), lines.to_number("section", bytes), {}};
  // The number of blocks comes from a size in the file and may be huge. Nothing is reserved for it:
  // the loop ends at the first line that is not a block.
  const std::uint64_t blocks = block_count(section.bytes);
  for (std::uint64_t b = 0; b < blocks && lines.ok(); ++b)
    section.blocks.push_back(lines.digest("block"));
  return section;
}

}  // namespace

std::uint64_t CheckpointManifest::data_bytes() const {
  std::uint64_t sum = 0;
  for (const SectionInfo& section : sections) sum += section.bytes;
  return sum;
}

Status validate(const CheckpointManifest& manifest) {
  if (!is_name(manifest.head.job_name, "-_."))
    return usage_error("job_name = \"" + manifest.head.job_name +
                       "\": allowed is 1 to 128 letters, digits, '-', '_', '.'");
  const std::string& run = manifest.head.run;
  // "-" is a valid name by its characters, but it stands for an unknown run, so it could not be
  // read back.
  if (!run.empty() && (run == kNoRun || !is_name(run, "-_.")))
    return usage_error("run = \"" + run + "\": allowed is 1 to 128 letters, digits, '-', '_', '.'");
  if (manifest.job_toml_bytes > kJobTomlBytesMax)
    return usage_error("size of the job spec = " + std::to_string(manifest.job_toml_bytes) +
                       " bytes: allowed is at most " + std::to_string(kJobTomlBytesMax));
  if (manifest.sections.size() > kSectionsMax)
    return usage_error("number of sections = " + std::to_string(manifest.sections.size()) +
                       ": allowed is at most " + std::to_string(kSectionsMax));
  std::set<std::string_view> names;
  // The remaining room is compared instead of a sum, because a sum of sizes from a file could
  // overflow.
  std::uint64_t room = kCheckpointBytesMax;
  for (const SectionInfo& section : manifest.sections) {
    if (!is_name(section.name, "-_./") || !names.insert(section.name).second)
      return usage_error("section name = \"" + section.name +
                         "\": allowed is 1 to 128 letters, digits, '-', '_', '.', '/', each once");
    if (section.bytes > room)
      return usage_error("section \"" + section.name +
                         "\": bytes = " + std::to_string(section.bytes) + ": allowed is at most " +
                         std::to_string(kCheckpointBytesMax) + " in all sections together");
    room -= section.bytes;
    if (section.blocks.size() != block_count(section.bytes))
      return usage_error("section \"" + section.name +
                         "\": blocks = " + std::to_string(section.blocks.size()) + ": allowed is " +
                         std::to_string(block_count(section.bytes)));
  }
  return {};
}

std::string encode_manifest(const CheckpointManifest& manifest) {
  ES_CHECK_OK(validate(manifest), "a manifest to be written");
  std::string text(kManifestFirstWord);
  const auto line = [&](const std::string& argument) { text += argument + '\n'; };
  line(std::to_string(manifest.format));
  line("job_name " + manifest.head.job_name);
  if (manifest.format >= kFormatWithRun) {
    line("run " + (manifest.head.run.empty() ? std::string(kNoRun) : manifest.head.run));
    line("written_unix_ms " + std::to_string(manifest.head.written_unix_ms));
  }
  line("version " + std::to_string(manifest.head.version));
  line("params_digest " + manifest.head.params_digest.hex());
  line("state_digest " + manifest.head.state_digest.hex());
  line("block_bytes " + std::to_string(kCheckpointBlockBytes));
  line("job_toml " + std::to_string(manifest.job_toml_bytes) + ' ' +
       manifest.job_toml_digest.hex());
  line("sections " + std::to_string(manifest.sections.size()));
  for (const SectionInfo& section : manifest.sections) {
    line("section " + section.name + ' ' + std::to_string(section.bytes));
    for (const Digest& block : section.blocks) line("block " + block.hex());
  }
  return text + last_line(text);
}

Result<CheckpointManifest> decode_manifest(std::string_view text, const std::string& where) {
  const Result<std::string_view> body = checked_body(text, where);
  if (!body) return body.error();
  // checked_body() has verified the first line.
  LineReader lines(body->substr(body->find('\n') + 1), where);
  CheckpointManifest manifest;
  manifest.format = format_of(text);
  manifest.head.job_name = lines.text("job_name");
  if (manifest.format >= kFormatWithRun) {
    manifest.head.run = lines.text("run");
    if (manifest.head.run == kNoRun) manifest.head.run.clear();
    manifest.head.written_unix_ms = lines.number("written_unix_ms");
  }
  manifest.head.version = lines.number("version");
  manifest.head.params_digest = lines.digest("params_digest");
  manifest.head.state_digest = lines.digest("state_digest");
  const std::uint64_t block_bytes = lines.number("block_bytes");
  const auto [toml_bytes, toml_digest] = lines.pair("job_toml");
  manifest.job_toml_bytes = lines.to_number("job_toml", toml_bytes);
  manifest.job_toml_digest = lines.to_digest("job_toml", toml_digest);
  const std::uint64_t sections = lines.number("sections");
  for (std::uint64_t s = 0; s < sections && lines.ok(); ++s)
    manifest.sections.push_back(read_section(lines));
  if (!lines.ok()) return lines.status().error();
  if (block_bytes != kCheckpointBlockBytes)
    return usage_error(where + ": block_bytes = " + std::to_string(block_bytes) + ": allowed is " +
                       std::to_string(kCheckpointBlockBytes));
  if (const Status valid = validate(manifest); !valid.ok())
    return usage_error(where + ": " + valid.error().message);
  // This comparison also refuses what the parser accepts: leading zeros, and bytes after the last
  // section.
  if (encode_manifest(manifest) != text)
    return usage_error(where + ": damaged: not in the one form that its contents have");
  return manifest;
}

}  // namespace es::store
