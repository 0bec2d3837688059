#include "actors/esctl/client/machine.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace es::actors;
using namespace es::actors::esctl;
using Verdict = Finding::Verdict;

namespace {

// A machine on which nothing is wrong.
MachineFacts good() {
  MachineFacts facts;
  facts.cores = 4;
  facts.cpu_classes = {"cpu-scalar", "cpu-avx2"};
  facts.memory_available = 8ull << 30;
  facts.open_files = facts.processes = 65536;
  facts.shared_memory_free = 4ull << 30;
  facts.clock_synchronised = true;
  facts.why_no_gpu = "no driver is loaded";
  return facts;
}

// The only finding that is not fine.
Finding complaint(const MachineFacts& facts) {
  Findings found = check_machine(facts);
  std::erase_if(found, [](const Finding& f) { return f.verdict == Verdict::kFine; });
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].mend.empty());
  return found[0];
}

}  // namespace

TEST_SUITE("actors/esctl/client/machine") {
  TEST_CASE("nothing is wrong with a good machine") {
    const Findings found = check_machine(good());
    CHECK(std::ranges::all_of(found, [](const Finding& f) { return f.verdict == Verdict::kFine; }));
    CHECK_FALSE(something_is_wrong(found));
    CHECK(findings_text(found).find("0 wrong, 0 warnings") != std::string::npos);
  }

  TEST_CASE("each fault is found, and says how to mend it") {
    MachineFacts facts = good();
    facts.has_fma = false;
    CHECK(complaint(facts).area == "cpu");
    CHECK(complaint(facts).verdict == Verdict::kWrong);
    facts = good();
    facts.memory_available = 1 << 20;
    CHECK(complaint(facts).area == "memory");
    facts = good();
    facts.memory_limit = 1 << 20;
    CHECK(complaint(facts).text.find("may use 1 MiB") != std::string::npos);
    facts = good();
    facts.open_files = 256;
    CHECK(complaint(facts).verdict == Verdict::kWrong);
    facts.open_files = 1024;
    CHECK(complaint(facts).verdict == Verdict::kWarning);
    facts = good();
    facts.processes = 100;
    CHECK(complaint(facts).area == "limits");
    facts = good();
    facts.shared_memory_free.reset();
    CHECK(complaint(facts).verdict == Verdict::kWrong);
    facts.shared_memory_free = 64 << 20;  // the default of a container
    CHECK(complaint(facts).verdict == Verdict::kWarning);
    facts = good();
    facts.clock_synchronised = false;
    CHECK(complaint(facts).area == "clock");
  }

  TEST_CASE("a GPU is missed only where its driver is loaded") {
    MachineFacts facts = good();
    facts.has_gpu_driver = true;
    CHECK(complaint(facts).verdict == Verdict::kWrong);
    facts.gpus = {"cuda-sm90-h200"};
    facts.missing_gpu_libraries = {"cuDNN"};
    CHECK(complaint(facts).verdict == Verdict::kWarning);
  }

  TEST_CASE("the facts of this machine can be read") {
    const MachineFacts facts = machine_facts();
    CHECK(facts.cores >= 1);
    CHECK(facts.memory_available > 0);
    CHECK(facts.open_files > 0);
    CHECK_FALSE(facts.cpu_classes.empty());
  }

  TEST_CASE("as JSON, with null where nothing is to be done") {
    const auto json = nlohmann::json::parse(findings_json(
        {{Verdict::kFine, "cpu", "good", ""}, {Verdict::kWrong, "keys", "bad", "mend it"}}));
    CHECK(json.at("wrong") == 1);
    CHECK(json.at("warnings") == 0);
    CHECK(json.at("findings")[0].at("mend").is_null());
    CHECK(json.at("findings")[1].at("mend") == "mend it");
    CHECK(json.at("findings")[1].at("verdict") == "wrong");
  }
}
