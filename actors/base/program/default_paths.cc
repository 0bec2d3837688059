#include "actors/base/program/default_paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace es::actors {
namespace {

namespace fs = std::filesystem;

fs::path home_directory(const Environment& environment) {
  const fs::path home = environment("HOME");
  if (home.is_absolute()) return home;
  // HOME is missing in some services and containers.
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_dir : "/";
}

// The XDG specification says that a relative path in one of its variables is to be ignored.
fs::path base_directory(const Environment& environment) {
  std::error_code ignored;
  const fs::path runtime = environment("XDG_RUNTIME_DIR");
  if (runtime.is_absolute() && fs::is_directory(runtime, ignored)) return runtime;
  const fs::path state = environment("XDG_STATE_HOME");
  if (state.is_absolute()) return state;
  return home_directory(environment) / ".local/state";
}

}  // namespace

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string default_head_endpoint(const Environment& environment) {
  return "ipc://" + (base_directory(environment) / "easyscale/head.sock").string();
}

std::string default_state_dir(const Environment& environment) {
  const fs::path state = environment("XDG_STATE_HOME");
  const fs::path base = state.is_absolute() ? state : home_directory(environment) / ".local/state";
  return (base / "easyscale").string();
}

}  // namespace es::actors
