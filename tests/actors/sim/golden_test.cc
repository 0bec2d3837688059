// The history of one small trace under every policy, as recorded. Another machine, compiler or
// library must give the same history, message by message. golden_histories.txt contains the trace
// and the histories.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "actors/sim/report/report.h"
#include "tests/actors/sim/small_traces.h"
#include "tests/support/places.h"

namespace es::actors::simulator {
namespace {

// Two types of different speed and jobs of both levels and three sizes. Their times and step times
// are not round numbers.
Workload golden_workload() {
  store::JobTrace trace;
  for (int i = 0; i < 24; ++i) {
    store::TraceJob one = job("j" + std::to_string(i), 97.3 * i, 1U << (i % 4), 300 + 170.0 * i);
    one.model = i % 3 == 0 ? "small" : "large";
    one.mix_types = i % 5 != 0;
    if (!one.mix_types) one.type = i % 2 == 0 ? "a" : "b";
    one.priority = i % 7 == 0 ? 1 : 0;
    trace.jobs.push_back(std::move(one));
  }
  store::StepTimes times;
  times.seconds = {
      {{"small", "a"}, 0.11}, {{"small", "b"}, 0.17}, {{"large", "a"}, 0.7}, {{"large", "b"}, 1.9}};
  return make_workload(trace, times, devices("a:6+b:4"), {.jitter_s = 1, .seed = 3}).value();
}

SimulationOptions golden_options(std::string_view policy) {
  SimulationOptions how = options(std::string(policy), 1.5);
  how.checkpoint_s = 60;
  how.world.seed = 3;
  how.world.devices_per_node = 2;
  how.world.failure_hours = 1;
  how.world.repair_s = 321;
  how.world.straggler_hours = 1;
  how.world.straggler_s = 210;
  how.world.sync_s = 0.01;
  how.world.claims = {{150.5, "a", 2, "x"}, {400, "a", 3, "x"}, {900, "a", 0, "x"}};
  return how;
}

std::filesystem::path golden_file() {
  return es::test::source_root() / "tests/actors/sim/golden_histories.txt";
}

std::map<std::string, std::string> recorded() {
  std::ifstream in(golden_file());
  std::map<std::string, std::string> hashes;
  std::string line, policy, hash;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    if (!line.starts_with("#") && words >> policy >> hash) hashes[policy] = hash;
  }
  return hashes;
}

void record(const std::map<std::string, std::string>& hashes) {
  std::ofstream out(golden_file());
  out << "# History hashes of golden_test.cc by policy. To record them anew, where decisions were\n"
         "# changed on purpose: ES_RECORD_GOLDEN=1 meson test -C build simulator\n";
  for (const auto& [policy, hash] : hashes) out << policy << " " << hash << "\n";
}

}  // namespace

TEST_SUITE("actors/sim/golden") {
  TEST_CASE("golden: the history of a small trace is the recorded one on every machine") {
    const Workload work = golden_workload();
    std::map<std::string, std::string> hashes;
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      const SimulationResult result = run(work, golden_options(policy.name));
      CHECK(result.unfinished == 0);
      CHECK(result.failures > 0);
      CHECK(result.stragglers > 0);
      hashes[std::string(policy.name)] = make_report(work, result, 20).history_hash;
    }
    if (std::getenv("ES_RECORD_GOLDEN") != nullptr) return record(hashes);
    const std::map<std::string, std::string> expected = recorded();
    for (const auto& [policy, hash] : hashes) {
      const auto at = expected.find(policy);
      CHECK_MESSAGE((at != expected.end() && at->second == hash), policy, ": the history is ", hash,
                    ", recorded is ", (at == expected.end() ? "none" : at->second),
                    ". If what is decided, or what messages say, was changed on purpose, record it "
                    "anew: ES_RECORD_GOLDEN=1 meson test -C build simulator. If not, the "
                    "simulator gives different results here than where it was recorded");
    }
  }
}

}  // namespace es::actors::simulator
