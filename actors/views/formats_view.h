#pragma once
// The versions of what this release writes and reads, as `esctl formats` shows them. The table in
// docs/OPERATIONS.md is formats_markdown(). Pure functions.
#include <cstdint>
#include <string>
#include <vector>

namespace es::actors {

struct FormatView {
  std::string name;
  std::uint32_t oldest = 0;   // that is read
  std::uint32_t written = 0;  // the newest that is read, too
  std::string otherwise;      // what happens with another one
};

std::vector<FormatView> formats();
std::string formats_text(const std::vector<FormatView>& formats);
std::string formats_markdown(const std::vector<FormatView>& formats);
std::string formats_json(const std::vector<FormatView>& formats);

}  // namespace es::actors
