#pragma once
// The files of the web page and the description of the service, which are part of the program.
#include <string_view>

namespace es::actors::http {

struct WebFile {
  const char* path;  // "/web/app.js"
  const char* type;  // media type
  std::string_view text;
};

// The file with this path; nullptr: there is none.
const WebFile* web_file(std::string_view path);

}  // namespace es::actors::http
