#pragma once
// Asks a head for a trace of a job.
#include <cstdint>
#include <filesystem>

#include "actors/base/tracing/core/span.h"
#include "actors/esctl/client/client.h"
#include "actors/esctl/client/options.h"

namespace es::actors::esctl {

struct TraceOptions {
  std::uint32_t steps = 20;
  bool all_operators = false;  // of GPUs too
  bool peak = false;           // measure the peak of the devices
  bool wait = false;           // until the job trains
};

// Sends the request and returns its number.
std::uint64_t begin_trace(Client& client, const JobId& job, const TraceOptions& options);
// Waits for the whole trace. It ends with the steps, or with the job.
Result<tracing::Trace> collect_trace(Client& client, std::uint64_t request);

// What the commands that trace a running job have in common.
struct TracedJob {
  HeadOptions head;
  std::string job;
  TraceOptions trace;
  bool json = false;
};
// `steps`: the help text of --steps.
void add_trace_options(CLI::App& command, TracedJob& traced, const std::string& steps);
Result<tracing::Trace> trace_of(const TracedJob& traced);

// Whether a new file can be made at this path, so that a trace is not made in vain. Errors: refused
// (it exists, or its directory cannot be written), not found (there is no such directory).
Status check_new_file(const char* option, const std::filesystem::path& path);

}  // namespace es::actors::esctl
