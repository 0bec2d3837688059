#include "store/traces/job_trace.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "tests/support/places.h"

namespace es::store {
namespace {

constexpr const char* kEasyScale =
    "job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type\n"
    "late,20.5,bert,16,8,3200,1,v100\n"
    "early,5,swin,4,4,80,0,t4\n";

std::string error_of(const std::string& text) {
  const auto trace = parse_trace(text, "jobs.csv");
  REQUIRE(!trace);
  return trace.error().message;
}

// The directory with the traces of the project, which are data beside the repository.
std::filesystem::path traces() {
  return test::source_root().parent_path() / "shared" / "traces";
}

}  // namespace

TEST_SUITE("store/traces") {
  TEST_CASE("jobs are ordered by submission, with their work in local steps") {
    const auto trace = parse_trace(kEasyScale, "jobs.csv");
    REQUIRE(trace.ok());
    CHECK(trace->format == TraceFormat::kEasyScale);
    REQUIRE(trace->jobs.size() == 2);
    const TraceJob& early = trace->jobs[0];
    CHECK(early.id == "early");
    CHECK(early.local_steps == 20);
    CHECK(early.max_p == 4);
    CHECK(!early.mix_types);
    CHECK(early.type == "t4");
    CHECK(trace->jobs[1].submit_s == 20.5);
    CHECK(trace->jobs[1].local_steps == 400);
    CHECK(trace->jobs[1].mix_types);
  }

  TEST_CASE(
      "Philly: the work of a job is its duration on its devices; rows that never ran are skipped") {
    const auto trace = parse_trace(
        "job_id,submit_s,gpus,duration_s,gpu_type,status,vc\n"
        "0,3,8,100,,Pass,a\n1,4,,50,,,b\n2,5,1,0,,,b\n3,6,2,7,,Killed,b\n",
        "philly.csv");
    REQUIRE(trace.ok());
    CHECK(trace->format == TraceFormat::kPhilly);
    CHECK(trace->skipped == 2);
    REQUIRE(trace->jobs.size() == 2);
    CHECK(trace->jobs[0].local_steps == 800);
    CHECK(trace->jobs[0].tenant == "a");
    CHECK(trace->jobs[1].local_steps == 14);
  }

  TEST_CASE("Pollux: one of several workloads; Gavel: steps of a whole gang") {
    const std::string pollux =
        "workload,job_id,submit_s,application,gpus,batch_size\n"
        "w1,a,0,cifar10,4,128\nw2,b,1,ncf,1,64\nw1,c,2,ncf,2,64\n";
    CHECK(parse_trace(pollux, "p")->jobs.size() == 2);
    CHECK(parse_trace(pollux, "p", "w2")->jobs[0].id == "b");
    CHECK(parse_trace(pollux, "p")->jobs[0].batch_size == 32);
    CHECK(!parse_trace(pollux, "p", "w3").ok());
    const auto gavel = parse_trace(
        "job_id,submit_s,gpus,job_type,total_steps,priority_weight,slo\n"
        "0,0,4,ResNet-18 (batch size 16),100,1,-1.0\n",
        "g");
    REQUIRE(gavel.ok());
    CHECK(gavel->jobs[0].local_steps == 400);
    const auto times = parse_step_times(
        "job_type,gpus,v100_steps_per_s,k80_steps_per_s,v100_unconsolidated\n"
        "ResNet-18 (batch size 16),4,20,0,7\n",
        "t");
    REQUIRE(times.ok());
    CHECK(times->seconds.size() == 1);
    CHECK(times->seconds.at({gavel->jobs[0].model, "v100"}) == 0.05);
  }

  TEST_CASE("an error names file, line, field, value and what is allowed") {
    const std::string header = "job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type\n";
    CHECK(error_of(header + "a,0,m,1,1,5,1,\nb,-1,m,1,1,5,1,\n") ==
          "jobs.csv: line 3: submit_s = \"-1\": allowed is a number from 0 to 10000000000");
    CHECK(error_of(header + "a,0,m,0,1,5,1,\n") ==
          "jobs.csv: line 2: max_p = \"0\": allowed is a whole number from 1 to 1024");
    CHECK(error_of(header + "a,0,m,1,1,5x,1,\n").find("samples_total = \"5x\"") !=
          std::string::npos);
    CHECK(error_of(header + "a,0,m,1,1,5,0,\n").find("gpu_type = \"\"") != std::string::npos);
    CHECK(error_of(header + "a,0,m,1,1,5,1,\na,0,m,1,1,5,1,\n").find("line 3: job_id = \"a\"") !=
          std::string::npos);
    CHECK(error_of(header + "a,0,m\n").find("line 2: 3 fields") != std::string::npos);
    CHECK(error_of("a,b\n1,2\n").find("header \"a,b\": allowed are easyscale:") !=
          std::string::npos);
    CHECK(error_of("").find("is empty") != std::string::npos);
    CHECK(error_of(header).find("no job") != std::string::npos);
  }

  TEST_CASE("step times, claims") {
    const auto times = parse_step_times(
        "model,gpu_type,seconds_per_local_step,samples_total\nm,v100,0.5,1000\nm,t4,2,\n", "t");
    REQUIRE(times.ok());
    CHECK(times->seconds.at({"m", "t4"}) == 2);
    CHECK(times->samples_total.at("m") == 1000);
    CHECK(times->local_step_s("m", "t4", 100) == 2);
    CHECK(!times->local_step_s("m", "a100", 100));
    const auto by_batch = parse_step_times(
        "model,gpu_type,seconds_per_local_step,seconds_per_sample\nm,v100,0.5,0.25\n", "t");
    REQUIRE(by_batch.ok());
    CHECK(by_batch->local_step_s("m", "v100", 4) == 1.5);
    CHECK(!parse_step_times("model,gpu_type,seconds_per_local_step\nm,v100,0\n", "t").ok());
    const auto claims = parse_claims("time_s,type,count,name\n9,t4,-1,x\n3,t4,2,\"a, b\"\n", "c");
    REQUIRE(claims.ok());
    CHECK((*claims)[0].name == "a, b");
    CHECK((*claims)[0].count == 2);
    CHECK((*claims)[1].count == 0);
    const auto reserved =
        parse_claims("time_s,type,count,name,until_s,queue\n3,t4,2,x,9,q\n4,t4,1,y,,\n", "c");
    REQUIRE(reserved.ok());
    CHECK((*reserved)[0].until_s == 9);
    CHECK((*reserved)[0].queue == "q");
    CHECK((*reserved)[1].until_s == 0);
    const std::string header = "time_s,type,count,name,until_s,queue\n";
    for (const char* line : {"3,t4,2,x,9,", "3,t4,2,x,,q", "3,t4,2,x,2,q", "3,t4,0,x,9,q"})
      CHECK_FALSE(parse_claims(header + line + "\n", "c").ok());
  }

  TEST_CASE("the traces of the project are read completely") {
    if (!std::filesystem::exists(traces() / "philly.csv.gz")) {
      MESSAGE("skipped: there is no " << traces().string());
      return;
    }
    CHECK(read_trace(traces() / "easyscale-sc23-jobs.csv")->jobs.size() == 62);
    CHECK(read_step_times(traces() / "easyscale-sc23-steptimes.csv")->seconds.size() > 10);
    const auto philly = read_trace(traces() / "philly.csv.gz");
    REQUIRE(philly.ok());
    CHECK(philly->jobs.size() + philly->skipped == 82'247);
    CHECK(read_trace(traces() / "pollux-osdi21-workloads.csv")->jobs.size() == 160);
    const auto nominal =
        read_step_times(test::source_root() / "configs/steptimes/pollux_nominal.csv");
    REQUIRE(nominal.ok());
    for (int w = 1; w <= 8; ++w) {
      const auto pollux =
          read_trace(traces() / "pollux-osdi21-workloads.csv", "workload-" + std::to_string(w));
      REQUIRE(pollux.ok());
      for (const TraceJob& job : pollux->jobs) {
        CHECK(nominal->local_step_s(job.model, "gpu", job.batch_size));
        CHECK(nominal->samples_total.contains(job.model));
      }
    }
    CHECK(read_trace(traces() / "gavel-physical-max_min_fairness.csv")->jobs.size() == 96);
    CHECK(read_step_times(traces() / "gavel-throughputs.csv").ok());
  }
}

}  // namespace es::store
