#pragma once
// The file of a trace, and what is said about it.
#include <filesystem>
#include <string>

#include "actors/base/tracing/core/span.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Writes a new file with this text. Errors: those of store::write_new_file.
Status write_text_file(const std::filesystem::path& path, const std::string& text);
Status write_trace(const std::filesystem::path& path, const tracing::Trace& trace);

std::string traced_text(const std::string& path, const tracing::Trace& trace);
std::string traced_json(const std::string& path, const tracing::Trace& trace);

}  // namespace es::actors::esctl
