#pragma once
// Where the processes of one user find each other when nothing is said. The head and its clients
// must agree, so the rule is here only.
//
//   $XDG_RUNTIME_DIR/easyscale/head.sock         when that variable names an existing directory
//   $XDG_STATE_HOME/easyscale/head.sock          otherwise; without that variable
//   $HOME/.local/state/easyscale/head.sock
//
// The runtime directory is local to the machine, closed to other users and emptied at logout; the
// state directory serves where there is no login session (containers, cron).
#include <filesystem>
#include <functional>
#include <string>

namespace es::actors {

// The value of an environment variable, empty when it is not set. Tests give their own.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// The endpoint of the user's head, "ipc:///PATH". The directory may not exist yet: who listens
// makes it (0700). A relative path in a variable is ignored, as the XDG specification demands.
std::string default_head_endpoint(const Environment& environment = process_environment);

// Where the user's head keeps its journal, logs and checkpoints: $XDG_STATE_HOME/easyscale, or
// $HOME/.local/state/easyscale.
std::string default_state_dir(const Environment& environment = process_environment);

}  // namespace es::actors
