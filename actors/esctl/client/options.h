#pragma once
// Command line options that several commands share.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/job_request.h"
#include "actors/views/trackers/job_tracking.h"

namespace es::actors::esctl {

// The head to which a command connects.
struct HeadOptions {
  std::string endpoint;
  std::string keys;  // directory of CURVE keys; empty if there are none
  bool insecure_loopback = false;
};
void add_head_options(CLI::App& command, HeadOptions& options);
// Without an Interrupt a signal ends the process as usual.
Result<std::unique_ptr<Client>> connect(const HeadOptions& options, Interrupt interrupt = {});

void add_json_option(CLI::App& command, bool& json);

// The job file and the options that change it.
struct JobOptions {
  std::string file;
  std::string from;
  SpecChanges changes;
};
void add_job_options(CLI::App& command, JobOptions& options);

void add_tracking_options(CLI::App& command, TrackingOptions& options);

}  // namespace es::actors::esctl
