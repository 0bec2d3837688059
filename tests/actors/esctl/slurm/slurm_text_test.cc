#include "actors/esctl/slurm/slurm_text.h"

#include <doctest/doctest.h>

#include "actors/esctl/slurm/batch_scripts.h"
#include "actors/esctl/slurm/cluster_directory.h"

namespace es::actors::esctl {
namespace {

TEST_SUITE("actors/esctl/slurm/slurm_text") {
  TEST_CASE("lines of squeue are read, with and without an array and a node") {
    const auto jobs = parse_queue(
        "17_3|es-agent-x|RUNNING|3|n2\n"
        "17_4|es-agent-x|PENDING|4|  \n"
        "18|es-head-x|RUNNING|N/A|login\n");
    REQUIRE(jobs.ok());
    CHECK(*jobs == std::vector<QueuedJob>{{"17_3", "es-agent-x", "RUNNING", 3, "n2"},
                                          {"17_4", "es-agent-x", "PENDING", 4, ""},
                                          {"18", "es-head-x", "RUNNING", 0, "login"}});
    CHECK(agent_node_name(jobs->front()) == "n2.3");
    CHECK(parse_queue("")->empty());
    CHECK(parse_queue("slurm_load_jobs error").error().message.find("slurm_load_jobs") !=
          std::string::npos);
  }

  TEST_CASE("nodes that drain are found among the lines of sinfo") {
    CHECK(parse_draining_nodes("n1|idle\nn2|draining\nn3|drained*\nn4|mixed\n") ==
          std::set<std::string>{"n2", "n3"});
    CHECK(parse_draining_nodes("").empty());
  }

  TEST_CASE("a state that is unknown is the one of an agent that ends") {
    CHECK(agent_state("PENDING") == AgentState::kQueued);
    CHECK(agent_state("RUNNING") == AgentState::kRunning);
    CHECK(agent_state("COMPLETING") == AgentState::kQueued);  // it may be queued again
    CHECK(agent_state("NODE_FAIL") == AgentState::kEnding);
  }

  TEST_CASE("indices of an array are written as ranges") {
    CHECK(array_text({0}) == "0");
    CHECK(array_text({0, 1, 2, 3}) == "0-3");
    CHECK(array_text({0, 2, 3, 7}) == "0,2-3,7");
  }

  TEST_CASE("the number of a submitted job is read") {
    CHECK(*parse_submitted("17\n") == "17");
    CHECK(*parse_submitted("17;west\n") == "17");
    CHECK_FALSE(parse_submitted("Submitted batch job 17").ok());
  }

  TEST_CASE("limits of --nodes") {
    CHECK(parse_limits("4..16")->min == 4);
    CHECK(parse_limits("4..16")->max == 16);
    CHECK(parse_limits("0..1")->min == 0);
    CHECK(parse_limits("3")->min == 3);
    CHECK(parse_limits("3")->max == 3);
    for (const char* wrong : {"", "0", "4..", "..4", "4..3", "a..b", "1-4", "-1..4", "1..1001"}) {
      CAPTURE(wrong);
      const auto limits = parse_limits(wrong);
      REQUIRE_FALSE(limits.ok());
      CHECK(limits.error().kind == ErrorKind::kUsage);
    }
  }
}

TEST_SUITE("actors/esctl/slurm/cluster_directory") {
  TEST_CASE("the options of a new cluster are in the files of the head and of the agents") {
    const ClusterFiles files{.devices = "cpu-avx2:2",
                             .data_roots = {"/srv/my \"data\"", "/x"},
                             .checkpoint_roots = {"/c"},
                             .python_data = true};
    const std::string roots =
        "data-root = [\"/srv/my \\\"data\\\"\",\"/x\"]\n"
        "checkpoint-root = [\"/c\"]\n"
        "python-data = true\n";
    CHECK(agent_toml(files).ends_with("grace = 25\n" + roots));
    CHECK(agent_toml(files).find("devices = \"cpu-avx2:2\"\n") != std::string::npos);
    CHECK(head_toml(files).ends_with(roots));
    CHECK(head_toml(files).find("devices = \"none\"") != std::string::npos);
  }

  TEST_CASE("the programs contain the batch scripts as they are") {
    CHECK(kAgentScript.starts_with("#!/bin/bash\n"));
    CHECK(kAgentScript.find("\n#SBATCH --signal=TERM@90\n") != std::string::npos);
    CHECK(kHeadScript.find("esctl}\" slurm up --here \"$@\" &\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace es::actors::esctl
