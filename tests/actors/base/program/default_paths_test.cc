#include "actors/base/program/default_paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

namespace es::actors {
namespace {

Environment environment(std::map<std::string, std::string> values) {
  return [values](const char* name) {
    const auto at = values.find(name);
    return at != values.end() ? at->second : std::string();
  };
}

const std::string kExisting = std::filesystem::temp_directory_path().string();

}  // namespace

TEST_SUITE("actors/base/program/default_paths") {
  TEST_CASE("the head listens in the runtime directory if there is one") {
    CHECK(default_head_endpoint(environment(
              {{"XDG_RUNTIME_DIR", kExisting}, {"XDG_STATE_HOME", "/state"}, {"HOME", "/h"}})) ==
          "ipc://" + kExisting + "/easyscale/head.sock");
  }

  TEST_CASE("without a runtime directory it listens in the state directory") {
    CHECK(default_head_endpoint(environment(
              {{"XDG_RUNTIME_DIR", "/nonexistent/runtime"}, {"XDG_STATE_HOME", "/state"}})) ==
          "ipc:///state/easyscale/head.sock");
    CHECK(default_head_endpoint(environment({{"HOME", "/h"}})) ==
          "ipc:///h/.local/state/easyscale/head.sock");
  }

  TEST_CASE("relative paths in the environment are ignored") {
    CHECK(default_head_endpoint(environment(
              {{"XDG_RUNTIME_DIR", "."}, {"XDG_STATE_HOME", "state"}, {"HOME", "/h"}})) ==
          "ipc:///h/.local/state/easyscale/head.sock");
  }

  TEST_CASE("without any variable there is still a path") {
    CHECK(default_head_endpoint(environment({})).ends_with("/.local/state/easyscale/head.sock"));
  }
}

}  // namespace es::actors
