#pragma once
// The default paths by which the processes of one user find each other. The head and its clients
// must agree, so this is the only place with the rule.
//
//   $XDG_RUNTIME_DIR/easyscale/head.sock         if that variable names an existing directory
//   $XDG_STATE_HOME/easyscale/head.sock          otherwise
//   $HOME/.local/state/easyscale/head.sock       if XDG_STATE_HOME is not set
//
// The runtime directory is local to the machine, closed to other users and emptied at logout. The
// state directory is used where there is no login session (containers, cron).
#include <filesystem>
#include <functional>
#include <string>

namespace es::actors {

// The value of an environment variable; empty if it is not set. Tests supply their own function.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// The endpoint of the user's head, "ipc:///PATH". The directory may not exist yet; the process that
// listens creates it with mode 0700. A relative path in a variable is ignored, as the XDG
// specification demands.
std::string default_head_endpoint(const Environment& environment = process_environment);

// The directory of the head's journal, logs and checkpoints: $XDG_STATE_HOME/easyscale or
// $HOME/.local/state/easyscale.
std::string default_state_dir(const Environment& environment = process_environment);

// The state that a worker keeps of a job that fails for a reason that can be repaired. It is a
// checkpoint in a directory of its own, whose name begins with this text and ends in its version.
inline std::string rescued_state_prefix(const std::string& job) {
  return job + "-step-";
}

}  // namespace es::actors
