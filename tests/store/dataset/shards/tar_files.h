#pragma once
// Makes the parts of small tar archives for tests.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace es::test {

struct TarOptions {
  char type = '0';
  std::string prefix;    // of a name of ustar
  std::string size;      // of the header, 12 bytes; empty: that of the content in octal digits
  std::string checksum;  // 8 bytes; empty: the right one
};

inline std::string octal(std::uint64_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
  return text;
}

inline std::string tar_header(const std::string& name, std::uint64_t bytes,
                              const TarOptions& options = {}) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, options.size.empty() ? octal(bytes, 11) : options.size);
  put(136, "00000000000");
  put(148, "        ");
  header[156] = options.type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, options.prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, options.checksum.empty() ? octal(sum, 6) + std::string("\0 ", 2) : options.checksum);
  return header;
}

// Content with zeros up to whole blocks.
inline std::string tar_content(const std::string& content) {
  return content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_member(const std::string& name, const std::string& content,
                              const TarOptions& options = {}) {
  return tar_header(name, content.size(), options) + tar_content(content);
}

// The extended header of pax for the member behind it.
inline std::string pax_header(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string text;
  for (const auto& [key, value] : records) {
    const std::size_t rest = key.size() + value.size() + 3;  // " ", "=" and the line end
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) ++length;
    text += std::to_string(length) + " " + key + "=" + value + "\n";
  }
  return tar_member("pax", text, {.type = 'x'});
}

// The name of the member behind it, as GNU tar writes long ones.
inline std::string gnu_name(const std::string& name) {
  return tar_member("././@LongLink", name + '\0', {.type = 'L'});
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace es::test
