// esctl sim and sim compare on a trace of a few jobs.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scheduler/policy/registry.h"
#include "tests/actors/esctl/session.h"
#include "tests/store/temp_directory.h"

namespace es::actors::test {
namespace {

using Json = nlohmann::json;

struct Bench {
  es::test::TempDirectory directory;
  Session session;

  Bench() {
    es::test::write_file(directory / "jobs.csv",
                         "job_id,submit_s,gpus,duration_s,vc\n"
                         "a,0,4,500,vision\nb,10,2,80,speech\nc,12,3,60,vision\nd,15,4,200,\n");
  }
  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "sim");
    words.insert(words.end(),
                 {"--trace", (directory / "jobs.csv").string(), "--cluster", "gpu=4", "--json"});
    return session.run(std::move(words));
  }
  Json json() const { return Json::parse(session.out()); }
  std::string history(const std::string& seed) {
    REQUIRE(run({"--policy", "elastic-srtf", "--seed", seed}) == 0);
    return json().at("history_hash");
  }
};

}  // namespace

TEST_SUITE("actors/esctl/sim") {
  TEST_CASE("one seed gives one history, and another seed another one") {
    Bench bench;
    const std::string first = bench.history("1");
    CHECK(first.size() == 16);
    CHECK(bench.history("1") == first);
    CHECK(bench.history("2") != first);
    CHECK(bench.history("0") != first);
  }

  TEST_CASE("compare runs a policy with a knob once for each value, and draws a chart of them") {
    Bench bench;
    const auto out = bench.directory / "charts";
    REQUIRE(bench.run({"compare", "--policies", "elastic-srtf,max-min-fair", "--fairness",
                       "0,0.25,1", "--out", out.string()}) == 0);
    std::vector<std::string> names;
    const Json reports = bench.json().at("policies");
    for (const Json& report : reports) names.push_back(report.at("policy"));
    CHECK(names == std::vector<std::string>{"elastic-srtf@0", "elastic-srtf@0.25", "elastic-srtf@1",
                                            "max-min-fair"});
    const std::string chart = es::test::read_file(out / "fairness.svg");
    for (const char* text : {"0.25", ">elastic-srtf<", ">max-min-fair<", "worst rho"})
      CHECK(chart.find(text) != std::string::npos);
    CHECK(std::filesystem::exists(out / "jobs-elastic-srtf@0.25.csv"));
  }

  TEST_CASE("lost nodes and slow devices are counted, and their cost is shown") {
    Bench bench;
    REQUIRE(bench.run({"--failures", "0.05", "--repair-time", "60", "--node-devices", "2",
                       "--checkpoint-every", "20", "--stragglers", "0.05", "--straggler-time", "30",
                       "--straggler-factor", "4", "--sync-cost", "0.1", "--seed", "5"}) == 0);
    const Json report = bench.json();
    CHECK(report.at("unfinished") == 0);
    CHECK(report.at("node_failures") > 0);
    CHECK(report.at("stragglers") > 0);
    CHECK(report.at("lost_work_seconds") > 0);
    REQUIRE(bench.run({"--seed", "5"}) == 0);
    CHECK(bench.json().at("node_failures") == 0);
    CHECK(bench.json().at("lost_work_seconds") == 0);
  }

  TEST_CASE("rates of mishaps outside of their limits are refused by name") {
    Bench bench;
    for (const char* option : {"--failures", "--stragglers"}) {
      CHECK(bench.run({option, "0.001"}) == 2);
      CHECK(bench.session.err().find(option) != std::string::npos);
      CHECK(bench.session.err().find("0.01 to 1e9 hours") != std::string::npos);
      CHECK(bench.run({option, "-1"}) == 2);
    }
    CHECK(bench.run({"--straggler-factor", "0.5"}) == 2);
    CHECK(bench.run({"--repair-time", "0"}) == 2);
    CHECK(bench.run({"--node-devices", "0"}) == 2);
  }

  TEST_CASE("after months of virtual time, times are still written to the millisecond") {
    Bench bench;
    es::test::write_file(bench.directory / "jobs.csv",
                         "job_id,submit_s,gpus,duration_s,vc\n"
                         "a,12345678.125,4,500,vision\n");
    const auto out = bench.directory / "tables";
    REQUIRE(bench.run({"--start-cost", "20", "--out", out.string()}) == 0);
    const std::string jobs = es::test::read_file(out / "jobs.csv");
    CHECK(jobs.find("\na,12345678.125,12345698.125,12346198.125,520,0,2080,") != std::string::npos);
    CHECK(es::test::read_file(out / "allocation.csv").find("\n12345698.125,") != std::string::npos);
    CHECK(bench.json().at("makespan_s") == 12346198.125);
  }

  TEST_CASE(
      "a device type in upper case is refused, and the error lists the types with step times") {
    Bench bench;
    es::test::write_file(bench.directory / "steps.csv",
                         "model,gpu_type,seconds_per_local_step\nbert,v100,0.5\nbert,p100,0.7\n");
    const std::string trace = (bench.directory / "jobs.csv").string();
    CHECK(bench.session.run({"sim", "--trace", trace, "--steptimes",
                             (bench.directory / "steps.csv").string(), "--cluster", "V100=4"}) ==
          2);
    CHECK(bench.session.err() ==
          "esctl: --cluster V100=4: \"V100=4\": allowed is TYPE=COUNT[,TYPE=COUNT...] with each "
          "type once and a count above 0; a type consists of lower-case letters, digits, - and _; "
          "types with step times: p100, v100\n");
  }

  // NaN is neither below nor above any bound.
  TEST_CASE("a number that is not finite is refused by every option that takes a number") {
    Bench bench;
    for (const char* option :
         {"--start-cost", "--rescale-cost", "--scale-cost", "--suspend-cost", "--round",
          "--fairness", "--failures", "--repair-time", "--checkpoint-every", "--stragglers",
          "--straggler-time", "--straggler-factor", "--sync-cost"})
      for (const char* value : {"nan", "-nan", "NaN", "inf", "-inf", "infinity", "1e999"}) {
        CAPTURE(option);
        CAPTURE(value);
        CHECK(bench.run({"--policy", "elastic-srtf", std::string(option) + "=" + value}) == 2);
        CHECK(bench.session.err().find(option) != std::string::npos);
        CHECK(bench.json().at("kind") == "usage");
      }
  }

  TEST_CASE("only compare accepts several values of the knob") {
    Bench bench;
    CHECK(bench.run({"--policy", "elastic-srtf", "--fairness", "0,1"}) == 2);
    CHECK(bench.session.err().find("--fairness") != std::string::npos);
  }

  TEST_CASE("a policy without quotas refuses them; compare leaves it out unless it is named") {
    Bench bench;
    const std::string quota = "vision=gpu:2";
    CHECK(bench.run({"--policy", "easyscale", "--quota", quota}) == 2);
    CHECK(bench.session.err().find("policy easyscale does not support quotas and queues") !=
          std::string::npos);
    CHECK(bench.run({"compare", "--policies", "srtf,max-min-fair", "--quota", quota}) == 2);
    REQUIRE(bench.run({"compare", "--quota", quota}) == 0);
    CHECK(bench.session.out().find("easyscale") == std::string::npos);
    CHECK(bench.session.out().find("elastic-srtf") != std::string::npos);
  }

  TEST_CASE("queues, time limits and suspensions are simulated, and equal runs are equal") {
    Bench bench;
    es::test::write_file(bench.directory / "jobs.csv",
                         "job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,queue,"
                         "suspendable,max_s\n"
                         "a,0,m,4,1,40000,1,gpu,vision,1,100\n"
                         "b,10,m,2,1,400,1,gpu,speech,0,0\n"
                         "c,12,m,4,1,4000,1,gpu,vision,1,0\n");
    es::test::write_file(bench.directory / "steps.csv",
                         "model,gpu_type,seconds_per_local_step\nm,gpu,0.1\n");
    es::test::write_file(bench.directory / "queues.toml",
                         "[queue.vision]\nguarantee = { gpu = 1 }\nborrow = { gpu = 2 }\n"
                         "[queue.speech]\nweight = 2\n");
    const auto run = [&](std::vector<std::string> more) {
      std::vector<std::string> words{"--steptimes", (bench.directory / "steps.csv").string(),
                                     "--queues", (bench.directory / "queues.toml").string()};
      words.insert(words.end(), more.begin(), more.end());
      return bench.run(std::move(words));
    };
    for (const char* policy : {"elastic-srtf", "fifo-backfill", "easy-backfill", "srtf", "las"}) {
      CAPTURE(policy);
      REQUIRE(run({"--policy", policy}) == 0);
      const Json report = bench.json();
      // What was stopped by its limit is not completed.
      CHECK(report.at("jobs") == 2);
      CHECK(report.at("unfinished") == 0);
      CHECK(report.at("timed_out") == 1);
      // Its queue may have three of the four devices.
      CHECK(report.at("makespan_s").get<double>() > 4000 * 0.1 / 3);
      REQUIRE(run({"--policy", policy, "--share-half-life", "1"}) == 0);
      const std::string history = bench.json().at("history_hash");
      CHECK(report.at("history_hash") != history);
      REQUIRE(run({"--policy", policy, "--share-half-life", "1"}) == 0);
      CHECK(bench.json().at("history_hash") == history);
    }
    es::test::write_file(bench.directory / "queues.toml", "[queue.vision]\n");
    CHECK(run({}) == 2);
    CHECK(bench.session.err().find(
              "job b: resources.queue = \"speech\": there is no such queue; allowed: vision") !=
          std::string::npos);
  }

  TEST_CASE("results by queue, tenant, model and type, and guarantees, in every output") {
    Bench bench;
    es::test::write_file(bench.directory / "queues.toml",
                         "[queue.vision]\nguarantee = { gpu = 2 }\n[queue.speech]\nweight = 1\n"
                         "[queue.default]\n");
    const auto out = bench.directory / "out";
    const std::vector<std::string> how{"--queues", (bench.directory / "queues.toml").string(),
                                       "--policy", "easy-backfill",
                                       "--out",    out.string()};
    REQUIRE(bench.run(how) == 0);
    const Json groups = bench.json().at("groups");
    CHECK(groups.at("queue").size() == 3);
    CHECK(groups.at("queue").at(2).at("name") == "vision");
    CHECK(groups.at("queue").at(2).at("jobs") == 2);
    CHECK(groups.at("tenant").size() == 3);
    CHECK(groups.at("model").empty());
    CHECK(groups.at("type").at(0).at("name") == "gpu");
    const Json guarantee = bench.json().at("guarantees").at(0);
    CHECK(guarantee.at("queue") == "vision");
    CHECK(guarantee.at("kept") == guarantee.at("waits").empty());
    for (const char* name : {"jobs.csv", "job_allocations.csv", "allocation.csv", "groups.csv",
                             "groups_over_time.csv", "guarantees.csv", "job_allocations.svg"})
      CHECK_MESSAGE(std::filesystem::exists(out / name), name);
    const std::string page = es::test::read_file(out / "index.html");
    for (const char* text : {"By queue, tenant, model and device type", "Guarantees",
                             "Devices by queue over time: easy-backfill", "<td>vision</td>",
                             "Jobs over time, and why they waited"})
      CHECK_MESSAGE(page.find(text) != std::string::npos, text);
    // The text has a table for each kind of several groups.
    const std::string trace = (bench.directory / "jobs.csv").string();
    REQUIRE(bench.session.run(
                {"sim", "--trace", trace, "--cluster", "gpu=4", "--queues", how[1]}) == 0);
    const std::string text = bench.session.out();
    for (const char* part : {"\nqueue  ", "\ntenant  ", "\nvision  ", "  queue vision "})
      CHECK_MESSAGE(text.find(part) != std::string::npos, part);
    CHECK(text.find("\ntype  ") == std::string::npos);
  }

  TEST_CASE("repetitions: means with their spread, and what differs; never the same one again") {
    Bench bench;
    const std::vector<std::string> how{"compare", "--policies", "elastic-srtf,easy-backfill",
                                       "--repeat", "4"};
    CHECK(bench.run(how) == 2);
    CHECK(bench.session.err().find("--resample") != std::string::npos);
    std::vector<std::string> drawn = how;
    const auto out = bench.directory / "repeats";
    drawn.insert(drawn.end(), {"--resample", "--seed", "5", "--out", out.string()});
    REQUIRE(bench.run(drawn) == 0);
    const Json result = bench.json();
    CHECK(result.at("seeds") == Json::parse("[5, 6, 7, 8]"));
    CHECK(result.at("varies").get<std::string>().starts_with("the jobs that are drawn"));
    CHECK(result.at("policies").size() == 2);
    for (const Json& policy : result.at("policies")) {
      CHECK(policy.at("avg_jct_s").at("deviation") > 0);
      CHECK(policy.at("avg_jct_s").at("least") < policy.at("avg_jct_s").at("mean"));
    }
    CHECK(result.at("policies").at(0).at("jct_ratio").at("mean") == 1);
    const std::string csv = es::test::read_file(out / "repeats.csv");
    CHECK(std::count(csv.begin(), csv.end(), '\n') == 9);
    REQUIRE(bench.run(drawn) == 0);
    CHECK(bench.json() == result);
    const std::string trace = (bench.directory / "jobs.csv").string();
    REQUIRE(bench.session.run({"sim", "compare", "--policies", "srtf", "--repeat", "2",
                               "--estimate-error", "0.5", "--trace", trace, "--cluster",
                               "gpu=4"}) == 0);
    CHECK(bench.session.out().find("They differ in what policies are told about jobs") !=
          std::string::npos);
  }

  TEST_CASE("sweep: one trace on clusters of several sizes, and how many devices are enough") {
    Bench bench;
    const auto out = bench.directory / "sweep";
    REQUIRE(bench.run({"sweep", "--scale", "2,0.25,1,0.01", "--policies", "fifo-gang,srtf", "--out",
                       out.string()}) == 0);
    const Json result = bench.json();
    std::vector<int> devices;
    for (const Json& size : result.at("sizes")) {
      devices.push_back(size.at("devices"));
      CHECK(size.at("policies").size() == 2);
      CHECK(size.at("policies").at(1).at("unfinished") == 0);
    }
    CHECK(devices == std::vector<int>{1, 1, 4, 8});
    CHECK(result.at("enough").at(0).at("devices") == 8);
    for (const char* name : {"sweep.csv", "sweep-jct.svg", "sweep-queue.svg", "sweep-makespan.svg",
                             "sweep-use.svg", "index.html"})
      CHECK_MESSAGE(std::filesystem::exists(out / name), name);
    const std::string csv = es::test::read_file(out / "sweep.csv");
    CHECK(csv.starts_with("scale,cluster,devices,policy,jobs,"));
    CHECK(csv.find("\n2,gpu:8,8,srtf,4,") != std::string::npos);
    const std::string trace = (bench.directory / "jobs.csv").string();
    REQUIRE(bench.session.run({"sim", "sweep", "--trace", trace, "--cluster", "gpu=4"}) == 0);
    CHECK(bench.session.out().find("elastic-srtf: already on 6 devices") != std::string::npos);
    CHECK(bench.run({"sweep", "--scale", "0"}) == 2);
    CHECK(bench.run({"sweep", "--scale", "nan"}) == 2);
  }

  TEST_CASE("a trace may state the fewest devices of a job") {
    Bench bench;
    const auto write = [&](const char* least) {
      es::test::write_file(bench.directory / "jobs.csv",
                           "job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,"
                           "min_devices\n"
                           "a,0,m,2,1,400,1,gpu,2\nb,1,m,4,1,400,1,gpu," +
                               std::string(least) + "\n");
    };
    es::test::write_file(bench.directory / "steps.csv",
                         "model,gpu_type,seconds_per_local_step\nm,gpu,1\n");
    const std::string times = (bench.directory / "steps.csv").string();
    const auto waited = [&](const char* least) {
      write(least);
      REQUIRE(bench.run({"--steptimes", times, "--policy", "easyscale"}) == 0);
      return bench.json().at("avg_queue_s").get<double>();
    };
    CHECK(waited("2") < 1);
    CHECK(waited("3") > 50);
    for (const char* bad : {"0", "5", "1.5"}) {
      write(bad);
      CHECK(bench.run({"--steptimes", times}) == 2);
      CHECK(bench.session.err().find("min_devices") != std::string::npos);
    }
  }

  TEST_CASE("prices: what jobs cost, deadlines on cheap devices, and budgets that pause") {
    Bench bench;
    const std::string header =
        "job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,deadline_s,budget\n";
    const auto write = [&](const std::string& jobs) {
      es::test::write_file(bench.directory / "jobs.csv", header + jobs);
    };
    // A V100 is twice as fast, and costs five times as much: 1 and 0.2 for a second.
    es::test::write_file(bench.directory / "steps.csv",
                         "model,gpu_type,seconds_per_local_step\nm,v100,0.1\nm,t4,0.2\n");
    const auto run = [&](std::vector<std::string> more, bool with_prices = true) {
      std::vector<std::string> words{"sim",
                                     "--trace",
                                     (bench.directory / "jobs.csv").string(),
                                     "--steptimes",
                                     (bench.directory / "steps.csv").string(),
                                     "--cluster",
                                     "v100=2,t4=4",
                                     "--start-cost",
                                     "0",
                                     "--json"};
      if (with_prices) more.insert(more.end(), {"--price", "v100=3600", "--price", "t4=720"});
      words.insert(words.end(), more.begin(), more.end());
      return bench.session.run(std::move(words));
    };
    const auto number = [](const Json& report, const char* name) {
      return report.at(name).get<double>();
    };
    for (const scheduler::PolicyInfo& info : scheduler::policies()) {
      const std::string policy(info.name);
      CAPTURE(policy);
      // 1000 steps take 200 s on a T4, which costs 40, and 100 s on a V100, which costs 100.
      write("a,0,m,1,1,1000,1,v100,300,0\n");
      REQUIRE(run({"--policy", policy}) == 0);
      CHECK(number(bench.json(), "cost") == doctest::Approx(40).epsilon(0.05));
      CHECK(number(bench.json(), "late") == 0);
      // In time on a V100 only.
      write("a,0,m,1,1,1000,1,t4,150,0\n");
      REQUIRE(run({"--policy", policy}) == 0);
      CHECK(number(bench.json(), "cost") == doctest::Approx(100).epsilon(0.05));
      CHECK(number(bench.json(), "late") == 0);
      // The budget suffices for T4, and then for nothing.
      write("a,0,m,1,1,1000,1,v100,0,60\n");
      REQUIRE(run({"--policy", policy}) == 0);
      CHECK(number(bench.json(), "cost") == doctest::Approx(40).epsilon(0.05));
      CHECK(number(bench.json(), "over_budget") == 0);
      write("a,0,m,1,1,1000,1,v100,0,20\nb,1,m,1,1,1000,1,t4,0,0\n");
      REQUIRE(run({"--policy", policy, "--out", (bench.directory / "out").string()}) == 0);
      CHECK(number(bench.json(), "over_budget") == 1);
      CHECK(number(bench.json(), "jobs") == 1);
      CHECK(number(bench.json(), "unfinished") == 0);
      const std::string jobs = es::test::read_file(bench.directory / "out" / "jobs.csv");
      CHECK(jobs.find(",cost\n") != std::string::npos);
      const std::size_t line = jobs.find("\na,");
      const std::size_t end = jobs.find('\n', line + 1);
      const double cost = std::stod(jobs.substr(jobs.rfind(',', end) + 1));
      CHECK(cost > 18);
      CHECK(cost <= 20);
    }
    write("a,0,m,1,1,1000,1,v100,300,0\n");
    REQUIRE(run({"--policy", "elastic-srtf"}, false) == 0);
    CHECK(number(bench.json(), "cost") == 0);
    CHECK(run({"--price", "v100=-1"}, false) == 2);
    CHECK(bench.session.err().find("--price v100=-1: allowed is TYPE=NUMBER") != std::string::npos);
    CHECK(run({"--spot-price", "t5=1"}) == 2);
    CHECK(run({"--price", "t4=1"}) == 2);
  }
}

}  // namespace es::actors::test
