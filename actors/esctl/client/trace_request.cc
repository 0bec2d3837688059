#include "actors/esctl/client/trace_request.h"

#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "actors/base/tracing/wire/trace_codec.h"

namespace es::actors::esctl {

namespace fs = std::filesystem;

std::uint64_t begin_trace(Client& client, const JobId& job, const TraceOptions& options) {
  return client.begin_stream<wire::TraceJob>(job, [&](wire::TraceJob::Builder b) {
    b.setSteps(options.steps);
    b.setAllOperators(options.all_operators);
    b.setPeak(options.peak);
    b.setWait(options.wait);
  });
}

Result<tracing::Trace> collect_trace(Client& client, std::uint64_t request) {
  // Each process has a limit of its own.
  tracing::TraceAssembly assembly(std::numeric_limits<std::size_t>::max());
  std::optional<tracing::Trace> whole;
  const Status read =
      client.read_stream(request, [&](const std::shared_ptr<const Frame>& frame) -> Result<bool> {
        auto trace = assembly.add(frame);
        if (!trace) return trace.error();
        whole = *std::move(trace);
        return whole.has_value();
      });
  if (!read.ok()) return read.error();
  return *std::move(whole);
}

void add_trace_options(CLI::App& command, TracedJob& traced, const std::string& steps) {
  command.add_option("job", traced.job, "Job id")->required()->type_name("JOB");
  command.add_option("--steps", traced.trace.steps, steps)
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_flag("--wait", traced.trace.wait,
                   "If the job does not train now, wait until it does");
  add_head_options(command, traced.head);
  add_json_option(command, traced.json);
}

Result<tracing::Trace> trace_of(const TracedJob& traced) {
  const auto client = connect(traced.head);
  if (!client) return client.error();
  return collect_trace(**client, begin_trace(**client, traced.job, traced.trace));
}

Status check_new_file(const char* option, const fs::path& path) {
  const std::string what = std::string(option) + " " + path.string();
  std::error_code code;
  if (fs::exists(fs::symlink_status(path, code)))
    return refused(what + " exists: allowed is a new file");
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, code))
    return not_found(what + ": there is no directory " + parent.string() +
                     ": allowed is a new file in an existing one");
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    return refused(what + ": directory " + parent.string() + ": " +
                   std::generic_category().message(errno));
  return {};
}

}  // namespace es::actors::esctl
