#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "actors/views/claims_view.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "tests/actors/views/fake_head.h"

namespace es::actors {
namespace {

using Json = nlohmann::json;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

JobView job_view(const std::string& state) {
  const auto message = Msg<wire::JobDetails>::build(
      {}, [&](wire::JobDetails::Builder b) { test::fill_job(b.initInfo(), "cnn-1", state); });
  return message.decode([](wire::JobDetails::Reader reader) { return read_job(reader.getInfo()); })
      .value();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("actors/esctl/render_json") {
  TEST_CASE("the summary has the fields that scripts rely on") {
    const Json json = Json::parse(job_json(job_view("finished")));
    CHECK(json.at("job") == "cnn-1");
    CHECK(json.at("state") == "finished");
    CHECK(json.at("steps") == 60);
    CHECK(json.at("max_p") == 4);
    CHECK(json.at("level") == "D2");
    CHECK(json.at("loss_first") == 2.25);
    CHECK(json.at("loss_last") == 0.5);
    CHECK(json.at("params_digest") == "00112233445566778899aabbccddeeff");
    CHECK(json.at("state_digest") == "ffeeddccbbaa99887766554433221100");
    CHECK(json.at("samples_per_s_mean") == 512.5);
    CHECK(json.at("peak_rss_mib") == 123.25);
    CHECK(json.at("error").is_null());
  }

  TEST_CASE("the rate is the present one, and null for a job without steps") {
    const Json running = Json::parse(job_json(job_view("running")));
    CHECK(running.at("samples_per_s") == 640.25);
    CHECK(running.at("samples_per_s_mean") == 512.5);
    for (const char* state : {"paused", "queued", "finished"})
      CHECK(Json::parse(job_json(job_view(state))).at("samples_per_s").is_null());
    JobView unborn = job_view("queued");
    unborn.samples_per_second_mean = 0;
    CHECK(Json::parse(job_json(unborn)).at("samples_per_s_mean").is_null());
  }

  TEST_CASE("ranges of ranks are half open, and a number of 64 bits keeps its digits") {
    JobView job = job_view("running");
    job.step = (std::uint64_t{1} << 53) + 1;
    const Json json = Json::parse(job_json(job));
    CHECK(json.at("steps").is_number_unsigned());
    CHECK(json.at("steps") == 9007199254740993U);
    CHECK(json.at("workers")[0].at("rank_begin") == 0);
    CHECK(json.at("workers")[0].at("rank_end") == 4);
  }

  TEST_CASE("numbers of an answer are numbers, texts are texts") {
    const Json json = Json::parse(
        fields_json({{"job", "300"}, {"step", std::uint64_t{300}}, {"most", ~std::uint64_t{0}}}));
    CHECK(json == Json{{"job", "300"}, {"step", 300}, {"most", 18446744073709551615U}});
  }

  TEST_CASE("each stage has its devices, steps, time and the pause before it") {
    const Json stages = Json::parse(job_json(job_view("finished"))).at("stages");
    REQUIRE(stages.size() == 2);
    CHECK(stages[1] == Json{{"placement", "cpu-scalar:1"},
                            {"steps", 40},
                            {"seconds", 5.0},
                            {"rescale_seconds", 0.125}});
  }

  TEST_CASE("the last evaluation is a field of its own, null without one") {
    JobView job = job_view("finished");
    job.evaluations.push_back(
        {.version = 60, .total = 10, .metrics = {{"top1", 0.9}, {"top5", 1.0}, {"loss", 0.25}}});
    CHECK(Json::parse(job_json(job)).at("eval") == Json{{"version", 60},
                                                        {"total", 10},
                                                        {"metric", "accuracy"},
                                                        {"accuracy", 0.9},
                                                        {"top5", 1.0},
                                                        {"mean_loss", 0.25}});
    CHECK(Json::parse(job_json(job)).at("evaluations").size() == 2);
    job.evaluations.clear();
    CHECK(Json::parse(job_json(job)).at("eval").is_null());
  }

  TEST_CASE("a number that is not finite is null") {
    JobView job = job_view("running");
    job.loss_first = kNan;
    job.loss_last = std::numeric_limits<float>::infinity();
    const Json json = Json::parse(job_json(job));
    CHECK(json.at("loss_first").is_null());
    CHECK(json.at("loss_last").is_null());
  }

  TEST_CASE("an evaluation with values that are not finite is marked, and has no numbers") {
    JobView job = job_view("finished");
    job.evaluations = {{.version = 6, .total = 30, .metrics = {{"top1", kNan}, {"loss", kNan}}}};
    CHECK(Json::parse(job_json(job)).at("eval") == Json{{"version", 6},
                                                        {"total", 30},
                                                        {"metric", "accuracy"},
                                                        {"accuracy", nullptr},
                                                        {"mean_loss", nullptr},
                                                        {"not_finite", true}});
    CHECK(contains(summary_text(job),
                   "test accuracy  not finite, mean loss not finite on 30 samples after step 6\n"));
    CHECK(contains(jobs_text({job}), "  accuracy not finite\n"));
  }

  TEST_CASE("a metric that is not defined is null, and an error of numbers is no percentage") {
    JobView job = job_view("finished");
    job.evaluations = {
        {.version = 6, .total = 30, .metrics = {{"auc", kNan}, {"mse", 2.5}, {"loss", 0.5}}}};
    CHECK(Json::parse(job_json(job)).at("eval") == Json{{"version", 6},
                                                        {"total", 30},
                                                        {"metric", "auc"},
                                                        {"auc", nullptr},
                                                        {"mse", 2.5},
                                                        {"mean_loss", 0.5}});
    CHECK(contains(summary_text(job), ", mse 2.5000, mean loss 0.5000 on 30 samples"));
  }

  TEST_CASE("bytes that are not UTF-8 are replaced") {
    CHECK(Json::parse(log_line_json("a\xff z")).at("line") == "a\xef\xbf\xbd z");
  }

  TEST_CASE("characters that the console would escape are escaped as JSON") {
    const std::string line = log_line_json(
        "a\x7f"
        "b\xe2\x80\xa8\xc3\xa4");
    CHECK(contains(line, "a\\u007fb\\u2028\\u00e4"));
    CHECK(Json::parse(line).at("line") ==
          "a\x7f"
          "b\xe2\x80\xa8\xc3\xa4");
    CHECK(contains(log_line_json("\xc3\xa4"), "\xc3\xa4"));
  }

  TEST_CASE("a log line of a job has its time and its level, and an older one has none") {
    CHECK(Json::parse(log_line_json("2026-11-22T17:31:02.123Z warning lost")) ==
          Json{{"ts", "2026-11-22T17:31:02.123Z"}, {"level", "warning"}, {"line", "lost"}});
    CHECK(Json::parse(log_line_json("lost")) ==
          Json{{"ts", nullptr}, {"level", "info"}, {"line", "lost"}});
  }

  TEST_CASE("a log line is one line, whatever is in it") {
    CHECK_FALSE(contains(log_line_json("a\nb"), "\n"));
  }

  TEST_CASE("an error has its text and its kind") {
    CHECK(Json::parse(error_json(refused("no"))) == Json{{"error", "no"}, {"kind", "refused"}});
  }

  TEST_CASE("a device that no job holds has the job null") {
    const NodeView node{.name = "n",
                        .alive = true,
                        .devices = {{.type = "cpu-avx2", .index = 0, .job = "cnn-1"},
                                    {.type = "cpu-avx2", .index = 1, .job = ""}}};
    const Json devices = Json::parse(nodes_json({node})).at("nodes")[0].at("devices");
    CHECK(devices[0].at("job") == "cnn-1");
    CHECK(devices[1].at("job").is_null());
  }
}

TEST_SUITE("actors/esctl/render_text") {
  TEST_CASE("columns are as wide as their longest cell, without trailing spaces") {
    CHECK(table({{"A", "B"}, {"long", ""}, {"x", "y"}}) == "A     B\nlong\nx     y\n");
  }

  TEST_CASE("a table without room breaks between words, headings first") {
    const std::vector<std::vector<std::string>> rows{{"NAME", "MS PER STEP", "REASON"},
                                                     {"a", "1.5", "it is slow"}};
    CHECK(table(rows, 29) == table(rows));
    CHECK(table(rows, 28) ==
          "NAME  MS    REASON\n"
          "      PER\n"
          "      STEP\n"
          "a     1.5   it is slow\n");
    // The last column has room for several lines, and others stand below.
    CHECK(table({{"error", "words that are too many for one line"}}, 32) ==
          "error  words that are too many\n"
          "       for one line\n");
    CHECK(table({{"A", "B", "C"}, {"a-long-name", "another-name", "x"}, {"a", "", ""}}, 20) ==
          "A\n    B             C\n"
          "a-long-name\n    another-name  x\n"
          "a\n");
  }

  TEST_CASE("nothing is lost of a table that is narrower than its words") {
    CHECK(table({{"A", "B"}, {"long word", "other"}}, 2) == "A\n    B\nlong\nword\n    other\n");
  }

  TEST_CASE("a note is broken between words") {
    CHECK(wrapped("one two three\nfour\n", 12) == "one two\n    three\nfour\n");
    CHECK(wrapped("one two\n", kAnyColumns) == "one two\n");
  }

  TEST_CASE("lists have no line above 80 columns, as long as no word has") {
    JobView job = job_view("failed");
    job.id = "train-resnet50-imagenet-12-8d87byv9";
    job.placement = "cpu-avx512:2+cpu-avx2:2+cpu-scalar:1";
    job.waiting_for = "devices of the types cpu-avx512, cpu-avx2 and cpu-scalar, which others use";
    job.error =
        "worker 7 on local/cpu-avx512:3: the data of the evaluation cannot be read any more";
    const NodeView node{
        .name = "a-node-with-a-long-name.example.org",
        .alive = true,
        .checkpoint_problem = "the directory belongs to another user of the machine",
        .rack = "a-rack-with-a-name",
        .spot = true,
        .gone_unix_ms = 1'795'453'200'000};
    for (const std::string& text : {jobs_text({job}, false, 80), jobs_text({job}, true, 80),
                                    details_text(job, "", 80), nodes_text({node}, 80)}) {
      CAPTURE(text);
      for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        end = text.find('\n', at);
        CHECK(end - at <= 80);
      }
    }
  }

  TEST_CASE("a number of things has their plural") {
    CHECK(counted(1, "process", "processes") == "1 process");
    CHECK(counted(2, "process", "processes") == "2 processes");
    CHECK(counted(0, "step") == "0 steps");
  }

  TEST_CASE("a number that is not finite is a dash") {
    CHECK(fixed(kNan, 2) == "-");
    CHECK(fixed(1.005e3, 1) == "1005.0");
  }

  TEST_CASE("the summary names digests, accuracy and every stage") {
    const std::string text = summary_text(job_view("finished"));
    CHECK(contains(text, "params digest  00112233445566778899aabbccddeeff\n"));
    CHECK(contains(
        text,
        "test accuracy  85.00 %, top5 99.00 %, mean loss 0.7500 on 1000 samples after step 30\n"));
    CHECK(contains(text, "\n2      cpu-scalar:1  40     5.00     0.125\n"));
    CHECK_FALSE(contains(text, "error"));
  }

  TEST_CASE("a checkpoint says why it is in another directory") {
    CheckpointView taken{.path = "/node/rescue/cnn-1", .version = 3};
    CHECK_FALSE(contains(checkpoint_text(taken), "because"));
    taken.first_error = "/head/cnn-1: cannot be created: Read-only file system";
    CHECK(contains(checkpoint_text(taken), "here because   /head/cnn-1: cannot be created"));
  }

  TEST_CASE("the list of jobs has the present rate, and a dash for a job without steps") {
    CHECK(contains(jobs_text({job_view("running")}), "  640.2  "));
    const std::string paused = jobs_text({job_view("paused")});
    CHECK(contains(paused, "0.5000  -  "));
    CHECK_FALSE(contains(paused, "512.5"));
  }

  TEST_CASE("a wide list has the time left at the rate of the present placement") {
    JobView job = job_view("running");
    job.tenant = "vision";
    job.step = 40;
    job.last_step = 100;
    job.stages = {{"cpu-scalar:2", 20, 1.0, 0}, {"cpu-scalar:1", 20, 40.0, 0.1}};
    CHECK(contains(jobs_text({job}, true), "  vision  2 min 0 s"));
    CHECK_FALSE(contains(jobs_text({job}), "vision"));
    CHECK(contains(summary_text(job), "time left      2 min 0 s\n"));
    job.samples_per_second_now = 0;
    CHECK(contains(jobs_text({job}, true), "  vision  -"));
    CHECK_FALSE(contains(summary_text(job), "time left"));
  }

  TEST_CASE("the summary names each of its two rates") {
    CHECK(contains(summary_text(job_view("running")),
                   "640.2 samples/s now, 512.5 samples/s on average over all training\n"));
    CHECK(contains(summary_text(job_view("finished")),
                   " 512.5 samples/s on average over all training\n"));
    JobView unborn = job_view("queued");
    unborn.samples_per_second_mean = 0;
    CHECK(contains(summary_text(unborn), "throughput     -\n"));
  }

  TEST_CASE("ranks are named by the first and the last") {
    JobView job = job_view("running");
    CHECK(contains(details_text(job, ""), "  0 to 3  "));
    job.workers[0].rank_begin = 3;
    CHECK(contains(details_text(job, ""), "cpu-scalar#0  3      4242"));
  }

  TEST_CASE("the main metric of a job is in the list of jobs") {
    JobView job = job_view("running");
    CHECK(contains(jobs_text({job}), "  accuracy 85.00 %\n"));
    job.evaluations.push_back(
        {.version = 60, .total = 9, .metrics = {{"hit_rate@10", 0.5}, {"loss", 0.25}}});
    CHECK(contains(jobs_text({job}), "  hit_rate@10 50.00 %\n"));
    job.evaluations.clear();
    CHECK(contains(jobs_text({job}), "  -\n"));
  }

  TEST_CASE("the summary of a failed job has the reason") {
    CHECK(contains(summary_text(job_view("failed")), "worker 7: loss is not finite"));
  }

  TEST_CASE("nodes show how many devices of each type are in use") {
    const NodeView node{.name = "n",
                        .alive = true,
                        .devices = {{.type = "cpu-avx2", .index = 0, .job = "cnn-1"},
                                    {.type = "cpu-avx2", .index = 1, .job = ""}}};
    CHECK(contains(nodes_text({node, {.name = "m"}}), "n     alive  cpu-avx2  2      1       -\n"));
    CHECK(contains(nodes_text({node, {.name = "m"}}), "m     lost   -         0      0       -\n"));
  }

  TEST_CASE("nodes show their racks, which of them are spot, and when they will be gone") {
    const NodeView node{
        .name = "n", .alive = true, .rack = "r1", .spot = true, .gone_unix_ms = 1'795'453'200'000};
    const std::string text = nodes_text({node, {.name = "m"}});
    CHECK(contains(text, "CHECKPOINTS  RACK\n"));
    CHECK(contains(text, "n     alive  -        0      0       -            r1\n"));
    CHECK(contains(text, "m     lost   -        0      0       -            -\n"));
    CHECK(contains(text, "node n is a spot node\n"));
    CHECK(contains(text, "node n will be gone at 2026-11-23T17:00:00.000Z; its jobs leave it"));
    const Json json = Json::parse(nodes_json({node})).at("nodes")[0];
    CHECK(json.at("rack") == "r1");
    CHECK(json.at("gone") == "2026-11-23T17:00:00.000Z");
  }

  TEST_CASE("claims show the times and queues of reservations") {
    const ClaimView web{.name = "web", .type = "a", .count = 2, .devices = 1};
    const ClaimView night{.name = "night",
                          .type = "a",
                          .count = 4,
                          .from_unix_ms = 1'795'453'200'000,
                          .until_unix_ms = 1'795'453'260'000,
                          .queue = "vision",
                          .begun = false};
    CHECK_FALSE(contains(claims_text({web}), "FROM"));
    const std::string text = claims_text({night, web});
    CHECK(contains(text,
                   "night  a     4      -    2026-11-23T17:00:00.000Z  "
                   "2026-11-23T17:01:00.000Z  vision\n"));
    CHECK(contains(text, "web    a     2      1    -"));
    const Json json = Json::parse(claims_json({night, web})).at("claims");
    CHECK(json[0].at("until") == "2026-11-23T17:01:00.000Z");
    CHECK(json[0].at("begun") == false);
    CHECK(json[1].at("from").is_null());
  }

  TEST_CASE("the summary has the bytes that the workers sent to each other in a step") {
    JobView job = job_view("running");
    CHECK(!contains(summary_text(job), "exchanged"));
    job.step_times.counts = {3, 0, 1};
    job.shared_memory_bytes = 6'000'000;
    job.message_bytes = 200'000;
    CHECK(contains(summary_text(job),
                   "exchanged      1.500 MB in shared memory and 0.050 MB in messages a step\n"));
  }

  TEST_CASE("describe says which losses a job survives until it is over") {
    const std::string whole = "steps = 3\n[model]\nname = \"small_cnn\"\n";
    JobView job = job_view("running");
    CHECK(contains(details_text(job, whole), "The job goes on while one worker is left"));
    CHECK(contains(details_text(job, whole + "[shard]\nstate = \"on\"\n"),
                   "The job goes on after the loss of any worker: its state is divided"));
    job.ended_unix_ms = 1;
    CHECK(!contains(details_text(job, whole), "The job goes on"));
  }

  TEST_CASE("describe ends with the specification") {
    CHECK(details_text(job_view("running"), "name = \"x\"").ends_with("\n\nname = \"x\"\n"));
  }
}

}  // namespace es::actors
