#include "store/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <string>

#include "proto/base/check.h"

namespace es::store {
namespace {

constexpr std::size_t kPatternBytesMax = 20'000;
constexpr std::size_t kJitStackBytes = std::size_t{32} << 10;
constexpr std::size_t kJitStackBytesMax = std::size_t{16} << 20;

// The members of \s and \w, for use inside of brackets. PCRE2 itself counts U+180E as a space and
// has fewer word characters.
constexpr const char* kSpaceMembers = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a})"
                                      R"(\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* kWordMembers = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

// Escapes of letters and digits that mean the same in both libraries.
constexpr std::string_view kSameEscapes = "dDbBpPrntfaeAz";

// Writes a pattern for PCRE2, from left to right.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      Status step;
      if (c == '\\')
        step = escape();
      else if (in_class_)
        step = class_member();
      else if (c == '[')
        open_class();
      else if (pattern_.substr(at_).starts_with("(?"))
        step = group();
      else
        copy(1);
      if (!step.ok()) return step.error();
    }
    return std::move(out_);
  }

 private:
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  void replace(std::size_t bytes, const std::string& text) {
    out_ += text;
    at_ += bytes;
  }
  static Error refuse(std::string_view what) {
    return usage_error("without \"" + std::string(what) + "\"");
  }

  Status escape() {
    if (at_ + 1 == pattern_.size()) return refuse("\\ at its end");
    const char c = pattern_[at_ + 1];
    const std::string brackets_open = in_class_ ? "" : "[", brackets_close = in_class_ ? "" : "]";
    if (c == 's') {
      replace(2, brackets_open + kSpaceMembers + brackets_close);
    } else if (c == 'w') {
      replace(2, brackets_open + kWordMembers + brackets_close);
    } else if (c == 'S') {
      replace(2, in_class_ ? "\\S" : std::string("[^") + kSpaceMembers + "]");
    } else if (c == 'W' && !in_class_) {
      replace(2, std::string("[^") + kWordMembers + "]");
    } else if (c == 'v') {
      replace(2, "\\x{b}");
    } else if (c == 'x' || c == 'u') {
      return code_point(c);
    } else if (kSameEscapes.find(c) != std::string_view::npos || c < 0 ||
               std::isalnum(static_cast<unsigned char>(c)) == 0) {
      copy(2);
    } else {
      return refuse(pattern_.substr(at_, 2));
    }
    return {};
  }

  // \x{H...}, \xHH or \uHHHH
  Status code_point(char kind) {
    if (kind == 'x' && pattern_.substr(at_ + 2).starts_with('{')) {
      copy(3);
      return {};
    }
    const std::size_t digits = kind == 'x' ? 2 : 4;
    const std::string_view hex = pattern_.substr(at_ + 2, digits);
    if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
      return refuse(pattern_.substr(at_, 2));
    replace(2 + digits, "\\x{" + std::string(hex) + "}");
    return {};
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (pattern_.substr(at_).starts_with('^')) copy(1);
    if (pattern_.substr(at_).starts_with(']')) replace(1, "\\]");
  }

  Status class_member() {
    const std::string_view rest = pattern_.substr(at_);
    if (rest.starts_with('[') || rest.starts_with("&&")) return refuse(rest.substr(0, 2));
    if (rest.starts_with(']')) in_class_ = false;
    copy(1);
    return {};
  }

  Status group() {
    const std::string_view rest = pattern_.substr(at_);
    for (const std::string_view known :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)"})
      if (rest.starts_with(known)) {
        copy(known.size());
        return {};
      }
    return refuse(rest.substr(0, 4));
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

std::string library_text(int code) {
  std::array<PCRE2_UCHAR8, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// What a thread needs to match: made once, because it is large.
struct MatchSpace {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackBytes, kJitStackBytesMax, nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);

  MatchSpace() {
    ES_CHECK(context != nullptr && stack != nullptr && data != nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  MatchSpace(const MatchSpace&) = delete;
  MatchSpace& operator=(const MatchSpace&) = delete;
  ~MatchSpace() {
    pcre2_match_data_free(data);
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
  }
};

MatchSpace& match_space() {
  thread_local MatchSpace space;
  return space;
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : pattern(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(pattern); }

  pcre2_code* pattern;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax)
    return usage_error("at most " + std::to_string(kPatternBytesMax) + " bytes");
  const auto text = Translation(pattern).run();
  if (!text) return text.error();
  int code = 0;
  PCRE2_SIZE at = 0;
  // In the syntax of Oniguruma ^ and $ belong to every line.
  pcre2_code* const compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR8>(text->data()), text->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
      &at, nullptr);
  if (compiled == nullptr) return usage_error("one that PCRE2 reads (" + library_text(code) + ")");
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without it a match is slower, and the same
  return Regex(std::make_shared<const Code>(compiled));
}

Status Regex::divide(std::string_view text, std::vector<Range>& out) const {
  const MatchSpace& space = match_space();
  const auto* const subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found = pcre2_match(code_->pattern, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                  space.data, space.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return failure("a match of the pattern fails: " + library_text(found));
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(space.data);
    const std::size_t begin = ends[0], end = ends[1];
    if (end <= begin || begin < from) {  // an empty match divides nothing
      from = std::max(from, end) + 1;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
      continue;
    }
    if (begin > done) out.push_back({done, begin, false});
    out.push_back({begin, end, true});
    done = from = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), false});
  return {};
}

}  // namespace es::store
