#include "actors/esctl/commands/trace_file.h"

#include <nlohmann/json.hpp>

#include <span>

#include "actors/base/tracing/core/chrome_json.h"
#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "store/checkpoint/file_system.h"
#include "store/checkpoint/new_file.h"

namespace es::actors::esctl {
namespace {

std::size_t spans_of(const tracing::Trace& trace) {
  std::size_t spans = 0;
  for (const tracing::ProcessTrace& process : trace.processes) spans += process.spans.size();
  return spans;
}

std::string process_text(const tracing::ProcessTrace& process) {
  return process.worker == Incarnation{}
             ? "the head"
             : "worker " + std::to_string(process.worker.value) + " on " + process.device.text();
}

}  // namespace

Status write_text_file(const std::filesystem::path& path, const std::string& text) {
  store::FileSystem& files = store::posix_file_system();
  return store::write_new_file(files, path, [&](store::WritableFile& file) {
    return file.append(std::as_bytes(std::span(text)));
  });
}

Status write_trace(const std::filesystem::path& path, const tracing::Trace& trace) {
  return write_text_file(path, tracing::chrome_json(trace));
}

std::string traced_text(const std::string& path, const tracing::Trace& trace) {
  std::string text;
  if (trace.end > trace.first)
    text = "steps " + std::to_string(trace.first) + " to " + std::to_string(trace.end - 1);
  else
    text = "no steps";
  text += ", " + counted(trace.processes.size(), "process", "processes") + ", " +
          counted(spans_of(trace), "span") + ": " + path + "\n";
  if (!trace.note.empty()) text += "fewer steps than requested: " + trace.note + "\n";
  for (const tracing::ProcessTrace& process : trace.processes) {
    if (!process.missing.empty())
      text += "spans of " + process_text(process) + " are missing: " + process.missing + "\n";
    if (process.dropped > 0)
      text += process_text(process) + " dropped its last " + counted(process.dropped, "span") +
              ", because its memory for the trace was full\n";
  }
  return text;
}

std::string traced_json(const std::string& path, const tracing::Trace& trace) {
  using Json = nlohmann::ordered_json;
  Json json{{"job", trace.job},
            {"out", path},
            {"first_step", trace.first},
            {"end_step", trace.end},
            {"note", trace.note.empty() ? Json() : Json(trace.note)},
            {"processes", Json::array()}};
  for (const tracing::ProcessTrace& process : trace.processes)
    json["processes"].push_back(
        {{"name", process_text(process)},
         {"spans", process.spans.size()},
         {"dropped_spans", process.dropped},
         {"missing", process.missing.empty() ? Json() : Json(process.missing)}});
  return json_text(json);
}

}  // namespace es::actors::esctl
