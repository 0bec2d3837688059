#include "store/ledger/ledger_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <optional>

namespace es::store {
namespace {

constexpr std::string_view kFirstWord = "easyscale-ledger ";
constexpr std::uint32_t kFormatVersion = 3;
constexpr std::string_view kMark = " #";     // precedes the check of a line
constexpr std::size_t kCheckBytes = 2 + 16;  // including the mark

// Computes the check of each line of the file, which covers its text and all text before it.
class Chain {
 public:
  // Returns " #" and 16 hexadecimal digits.
  std::string check(std::string_view line) {
    const std::string text = last_ + std::string(line) + "\n";
    // Each check covers the check before it, so a line in another place has a wrong check although
    // the line itself is unchanged.
    last_ = digest_of(text).hex().substr(0, kCheckBytes - kMark.size());
    return std::string(kMark) + last_;
  }

 private:
  std::string last_;
};

std::string first_line() {
  return std::string(kFirstWord) + std::to_string(kFormatVersion);
}

std::string hex(std::uint32_t bits) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", bits);
  return text;
}

std::string step_text(const LedgerLine& line) {
  std::string text =
      std::to_string(line.version) + " " + (line.params_digest ? line.params_digest->hex() : "-");
  for (const float loss : line.losses) text += " " + hex(std::bit_cast<std::uint32_t>(loss));
  return text;
}

template <class Integer>
bool read_number(std::string_view text, Integer& value, int base = 10) {
  // All of the text must be used: "12x" is no number.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool read_digest(std::string_view text, Digest& digest) {
  const std::optional<Digest> parsed = Digest::parse(text);
  digest = parsed.value_or(Digest());
  return parsed.has_value();
}

// Removes and returns the text up to the first separator. The separator is removed too.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return first;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  Result<LedgerFile> read() {
    ES_RETURN_IF_ERROR(check_format());
    // Lines of the head may be absent, but all come before "losses".
    while (next() && line_ != "" && read_head()) {
    }
    if (error_) return *error_;
    if (!take_losses()) return bad("losses N");
    while (next() && !line_.starts_with("end ")) {
      if (!read_line())
        return bad("VERSION DIGEST and " + std::to_string(losses_) +
                   " losses of 8 hexadecimal digits, versions ascending");
    }
    if (error_) return *error_;
    if (line_ != "end " + std::to_string(file_.lines.size()) || !rest_.empty())
      return bad("end " + std::to_string(file_.lines.size()) + ", at the end of the file");
    return std::move(file_);
  }

 private:
  // Checks the version before anything else, because another version may have another form.
  Status check_format() {
    const std::string_view first = rest_.substr(0, rest_.find('\n'));
    const std::string_view version =
        first.starts_with(kFirstWord) ? first.substr(kFirstWord.size()) : std::string_view();
    const std::string_view number = version.substr(0, version.find(' '));
    if (!number.empty() && number != std::to_string(kFormatVersion) &&
        number.find_first_not_of("0123456789") == std::string_view::npos)
      return usage_error(where_ +
                         ", line 1: format version = " + std::string(number.substr(0, 20)) +
                         ": allowed is " + std::to_string(kFormatVersion) +
                         "; write it anew with `esctl ledger JOB --out FILE`");
    const bool read = next();
    if (error_) return *error_;
    // The first line must be the exact one, and its check must be right. next() has verified the
    // check.
    return read && line_ == first_line() ? Status() : bad("\"" + first_line() + "\" and its check");
  }
  // Reads the next line without its check. False at the end of the text or at a damaged line
  // (error_).
  bool next() {
    const bool more = !rest_.empty() && !error_;
    line_ = {};
    if (!more) return false;
    ++number_;
    // A last line without a line feed was cut, even if its check happens to be complete.
    const bool ended = rest_.find('\n') != std::string_view::npos;
    line_ = take(rest_, '\n');
    const std::size_t bytes = line_.size() - std::min(kCheckBytes, line_.size());
    if (!ended || line_.substr(bytes) != chain_.check(line_.substr(0, bytes))) {
      error_ =
          bad(ended ? "a line with its check: this line, or one before it, is damaged, missing "
                      "or in another place"
                    : "a whole line: the file is cut");
      return false;
    }
    line_ = line_.substr(0, bytes);
    return true;
  }
  Error bad(const std::string& allowed) const {
    return usage_error(where_ + ", line " + std::to_string(number_) + ": \"" +
                       std::string(line_.substr(0, 60)) + "\": allowed is " + allowed);
  }
  // False if the line does not belong to the head of the file, or is wrong (error_).
  bool read_head() {
    std::string_view value = line_;
    const std::string_view name = take(value, ' ');
    if (name == "job")
      file_.job = value;
    else if (name == "placements")
      file_.placements = value;
    else if (name == "from")
      file_.from = value;
    else if (name == "checkpoint")
      file_.checkpoint = value;
    else if (name == "toml")
      file_.spec_toml += std::string(value) + "\n";
    else if (name == "spec") {
      if (!read_digest(value, file_.spec)) error_ = bad("spec and 32 hexadecimal digits");
    } else {
      return false;
    }
    return !error_;
  }
  bool take_losses() {
    std::string_view value = line_;
    return take(value, ' ') == "losses" && read_number(value, losses_) && losses_ <= kLossesMax;
  }
  bool read_line() {
    std::string_view text = line_;
    LedgerLine line;
    Digest digest;
    if (!read_number(take(text, ' '), line.version)) return false;
    // Ascending versions also exclude two lines of one version.
    if (!file_.lines.empty() && line.version <= file_.lines.back().version) return false;
    const std::string_view params = take(text, ' ');
    if (params != "-") {
      if (!read_digest(params, digest)) return false;
      line.params_digest = digest;
    }
    // Losses are the bits of the numbers, not decimal texts, so that NaN and -0 are kept too.
    for (std::uint32_t i = 0; i < losses_; ++i) {
      const std::string_view loss = take(text, ' ');
      std::uint32_t bits = 0;
      if (loss.size() != 8 || !read_number(loss, bits, 16)) return false;
      line.losses.push_back(std::bit_cast<float>(bits));
    }
    file_.lines.push_back(std::move(line));
    // The line may have no more losses than the file says.
    return text.empty();
  }

  // Refuses a senseless number at its own line, instead of at the first line that lacks losses.
  static constexpr std::uint32_t kLossesMax = 1 << 20;

  std::string_view rest_, line_;
  const std::string& where_;
  Chain chain_;
  std::size_t number_ = 0;
  std::uint32_t losses_ = 0;
  LedgerFile file_;
  std::optional<Error> error_;
};

}  // namespace

std::pair<std::uint32_t, std::uint32_t> ledger_file_versions() {
  return {kFormatVersion, kFormatVersion};
}

std::string encode_ledger_file(const LedgerFile& file) {
  std::string text;
  Chain chain;
  const auto line = [&](const std::string& content) {
    text += content + chain.check(content) + "\n";
  };
  const auto field = [&](const char* name, const std::string& value) {
    if (!value.empty()) line(std::string(name) + " " + value);
  };
  line(first_line());
  field("job", file.job);
  field("spec", file.spec.hex());
  field("placements", file.placements);
  field("from", file.from);
  field("checkpoint", file.checkpoint);
  std::string_view toml = file.spec_toml;
  while (!toml.empty()) line("toml " + std::string(take(toml, '\n')));
  line("losses " + std::to_string(file.lines.empty() ? 0 : file.lines.front().losses.size()));
  for (const LedgerLine& step : file.lines) line(step_text(step));
  line("end " + std::to_string(file.lines.size()));
  return text;
}

Result<LedgerFile> decode_ledger_file(std::string_view text, const std::string& where) {
  return Reader(text, where).read();
}

}  // namespace es::store
