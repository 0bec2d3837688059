#include "actors/base/job_file/toml_bounds.h"

#include <algorithm>

#include "proto/base/text.h"

namespace es::actors {
namespace {

// Scans a text only as far as its depth requires: it skips strings and comments, and counts
// brackets and the dots between names. It does not check the syntax. If the text is not TOML, its
// idea of a string may be wrong; the parser then refuses the text before it gets any deeper.
class DepthScan {
 public:
  explicit DepthScan(std::string_view text) : text_(text) {}

  // Returns the line of the first place that is too deep, or 0 if there is none.
  std::size_t too_deep_line() {
    while (at_ < text_.size()) {
      step();
      if (std::max(open_, dots_ + 1) > kTomlDepthMax) return line_;
    }
    return 0;
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return skip_string(c);
    if (c == '#') return skip_comment();
    ++at_;
    if (c == '\n') ++line_;
    if (c == '[' || c == '{') ++open_;
    if ((c == ']' || c == '}') && open_ > 0) --open_;
    if (c == '.') ++dots_;
    if (c == '\n' || c == ',' || c == '=' || c == '{') dots_ = 0;
  }
  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // A multi-line string ends with three quotes. Any other string ends at the latest with its line.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool several_lines = text_.substr(at_).starts_with(three);
    at_ += several_lines ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n' && !several_lines) return;
      if (c == '\n') ++line_;
      if (c == '\\' && quote == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
        continue;
      }
      if (several_lines ? text_.substr(at_).starts_with(three) : c == quote) break;
    }
    at_ = std::min(at_ + (several_lines ? 3 : 1), text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1, open_ = 0, dots_ = 0;
};

// Returns the line of the first character that TOML does not allow anywhere, or 0 if there is none.
std::size_t unfit_line(std::string_view text) {
  std::size_t line = 1;
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const bool control = c < 0x20 ? c != '\t' && c != '\n' && c != '\r' : c == 0x7f;
    const std::size_t bytes = character_bytes(text);
    if (control || bytes == 0) return line;
    line += c == '\n';
    text.remove_prefix(bytes);
  }
  return 0;
}

}  // namespace

Status check_toml_text(std::string_view text, const std::string& where) {
  if (text.size() > kTomlBytesMax)
    return usage_error(where + ": more than " + std::to_string(kTomlBytesMax) +
                       " bytes: allowed is at most that");
  if (const std::size_t line = unfit_line(text); line != 0)
    return usage_error(where + ": line " + std::to_string(line) +
                       ": a control character, or bytes that are no UTF-8: allowed is TOML, which "
                       "is UTF-8 text");
  if (const std::size_t line = DepthScan(text).too_deep_line(); line != 0)
    return usage_error(where + ": line " + std::to_string(line) + ": more than " +
                       std::to_string(kTomlDepthMax) +
                       " open brackets, or names in a dotted key: allowed is at most that");
  return {};
}

}  // namespace es::actors
