#include "actors/node/shell/worker_logs.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::actors;

namespace {

std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

}  // namespace

TEST_SUITE("actors/node/shell/worker_logs") {
  TEST_CASE("the logs of the workers that began first are removed, and nothing else") {
    const test::TempDirectory directory;
    const std::set<std::string> others{"worker-1.toml", "worker-x.log", "worker-.log", "a.log",
                                       "worker-2.log.old"};
    for (const std::string& name : others) std::ofstream(directory.path() / name) << "x";
    for (const int n : {1, 2, 9, 10, 11})
      std::ofstream(directory.path() / ("worker-" + std::to_string(n) + ".log")) << "x";
    remove_old_worker_logs(directory.path(), {Incarnation{1}}, 2);
    std::set<std::string> left = others;
    left.insert({"worker-1.log", "worker-10.log", "worker-11.log"});
    CHECK(names_in(directory.path()) == left);
    remove_old_worker_logs(directory.path(), {}, 0);
    CHECK(names_in(directory.path()) == others);
    remove_old_worker_logs(directory.path() / "none", {}, 0);
  }
}
