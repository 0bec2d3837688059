// The metrics of Prometheus.
#include "actors/service/answers/metrics.h"

#include <doctest/doctest.h>

#include "actors/base/protocol/core/turn_text.h"

TEST_SUITE("http/metrics") {
  using namespace es::actors;
  using namespace es::actors::http;

  bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
  }

  TEST_CASE("live jobs have series, and jobs that are over are only counted") {
    Snapshot snapshot;
    JobView live{.id = "a-1", .state = "running", .step = 7, .last_step = 20};
    live.tenant = "vision";
    live.loss_last = 0.5F;
    live.samples_per_second_mean = 7 * 32 / 3.0;
    live.stages = {{"x:1", 4, 2.0, 0.5}, {"x:2", 3, 1.0, 0.25}};
    live.evaluations = {{.version = 5, .total = 10, .metrics = {{"top1", 0.25}}}};
    for (const double seconds : {0.0005, 0.0015, 0.002, 1000.0}) live.step_times.add(seconds);
    snapshot.states = {{"running", 1}, {"finished", 1}};
    snapshot.jobs = {live};
    const std::string text = metrics_text(metrics_of(snapshot));
    const std::string labels = "{job_id=\"a-1\",tenant=\"vision\"";
    CHECK(has_line(text, "easyscale_jobs{state=\"running\"} 1"));
    CHECK(has_line(text, "easyscale_jobs{state=\"finished\"} 1"));
    CHECK(has_line(text, "easyscale_jobs{state=\"failed\"} 0"));
    CHECK(has_line(text, "easyscale_job_steps_total" + labels + "} 7"));
    CHECK(has_line(text, "easyscale_job_samples_total" + labels + "} 224"));  // 7 steps of 32
    CHECK(has_line(text, "easyscale_job_loss" + labels + "} 0.5"));
    CHECK(
        has_line(text, "easyscale_job_step_duration_seconds_bucket" + labels + ",le=\"0.001\"} 1"));
    CHECK(
        has_line(text, "easyscale_job_step_duration_seconds_bucket" + labels + ",le=\"0.002\"} 3"));
    CHECK(has_line(text, "easyscale_job_step_duration_seconds_bucket" + labels + ",le=\"300\"} 3"));
    CHECK(
        has_line(text, "easyscale_job_step_duration_seconds_bucket" + labels + ",le=\"+Inf\"} 4"));
    CHECK(has_line(text, "easyscale_job_step_duration_seconds_count" + labels + "} 4"));
    CHECK(has_line(text, "easyscale_job_rescales_total" + labels + "} 1"));
    CHECK(has_line(text, "easyscale_job_rescale_seconds_total" + labels + "} 0.75"));
    CHECK(has_line(text, "easyscale_job_evaluation" + labels + ",metric=\"top1\"} 0.25"));
  }

  TEST_CASE("OpenMetrics names families of counters without their suffix, and has an end") {
    CHECK(accepts_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.3"));
    CHECK_FALSE(accepts_openmetrics("text/plain"));
    CHECK_FALSE(accepts_openmetrics(""));
    Snapshot snapshot;
    JobView live{.id = "le=\"7", .state = "running", .step = 7, .last_step = 20};
    live.step_times.add(1000.0);
    snapshot.jobs = {live};
    const std::string text = openmetrics_text(metrics_of(snapshot));
    const std::string labels = "{job_id=\"le=\\\"7\",tenant=\"\"";
    CHECK(has_line(text, "# TYPE easyscale_job_steps counter"));
    CHECK(has_line(text, "# HELP easyscale_job_steps Committed global steps."));
    CHECK(has_line(text, "easyscale_job_steps_total" + labels + "} 7"));
    CHECK(has_line(text, "# TYPE easyscale_job_planned_steps gauge"));
    const std::string bucket = "easyscale_job_step_duration_seconds_bucket" + labels;
    CHECK(has_line(text, bucket + ",le=\"0.001\"} 0"));
    CHECK(has_line(text, bucket + ",le=\"300.0\"} 0"));
    CHECK(has_line(text, bucket + ",le=\"+Inf\"} 1"));
    snapshot.decisions.add(0.5);
    CHECK(openmetrics_text(metrics_of(snapshot))
              .find("decision_duration_seconds_bucket{le=\"1.0\"}") != std::string::npos);
    CHECK(text.ends_with("\n# EOF\n"));
  }

  TEST_CASE("a job has its pauses by cause, its retries, checkpoints and bytes") {
    Snapshot snapshot;
    JobView job{.id = "a-1", .state = "running"};
    job.pauses = {{"change", 2, 0.5}, {"worker_lost", 1, 3.0}, {"audit", 1, 1.0}};
    job.message_bytes = 10;
    job.shared_memory_bytes = 20;
    job.channel_bytes = 30;
    job.checkpoints_written = 4;
    job.checkpoints_failed = 1;
    job.checkpoint_seconds = 2.5;
    job.repeated_steps = 6;
    job.start_retries = 2;
    job.spent = 7.5;
    job.price_per_hour = 3;
    job.budget = 8;
    snapshot.jobs = {job};
    const std::string text = metrics_text(metrics_of(snapshot));
    const std::string labels = "{job_id=\"a-1\",tenant=\"\"";
    CHECK(has_line(text, "easyscale_job_pauses_total" + labels + ",cause=\"change\"} 2"));
    CHECK(
        has_line(text, "easyscale_job_pause_seconds_total" + labels + ",cause=\"worker_lost\"} 3"));
    CHECK(has_line(text, "easyscale_job_spent_total" + labels + "} 7.5"));
    CHECK(has_line(text, "easyscale_job_price_per_hour" + labels + "} 3"));
    CHECK(has_line(text, "easyscale_job_budget" + labels + "} 8"));
    CHECK(has_line(text, "easyscale_job_recoveries_total" + labels + "} 2"));
    CHECK(has_line(text, "easyscale_job_retries_total" + labels + ",what=\"step\"} 6"));
    CHECK(has_line(text, "easyscale_job_retries_total" + labels + ",what=\"worker_start\"} 2"));
    CHECK(has_line(text, "easyscale_job_exchanged_bytes_total" + labels + ",path=\"message\"} 10"));
    CHECK(has_line(text,
                   "easyscale_job_exchanged_bytes_total" + labels + ",path=\"shared_memory\"} 20"));
    CHECK(has_line(text,
                   "easyscale_job_exchanged_bytes_total" + labels + ",path=\"gpu_channel\"} 30"));
    CHECK(has_line(text, "easyscale_job_checkpoints_total" + labels + "} 4"));
    CHECK(has_line(text, "easyscale_job_checkpoint_seconds_total" + labels + "} 2.5"));
    CHECK(has_line(text, "easyscale_job_checkpoint_failures_total" + labels + "} 1"));
  }

  TEST_CASE("the queue and the decisions of the scheduler") {
    Snapshot snapshot{.unix_ms = 10'000};
    JobView waits{.id = "a-1", .state = "queued"}, later{.id = "a-2", .state = "queued"};
    waits.submitted_unix_ms = 4'000;
    later.submitted_unix_ms = 12'000;  // by a clock that was set back since
    later.waiting_for = std::string(kTurn) + "the end of job a-3";
    snapshot.jobs = {waits, later, {.id = "a-3", .state = "running"}};
    for (const double seconds : {0.00005, 0.003, 7.0}) snapshot.decisions.add(seconds);
    const std::string text = metrics_text(metrics_of(snapshot));
    CHECK(has_line(text, "easyscale_queue_jobs 2"));
    CHECK(has_line(text, "easyscale_queue_jobs_beside_free_devices 1"));
    CHECK(has_line(text, "easyscale_queue_oldest_job_age_seconds 6"));
    CHECK(has_line(text, "easyscale_decision_duration_seconds_bucket{le=\"0.0001\"} 1"));
    CHECK(has_line(text, "easyscale_decision_duration_seconds_bucket{le=\"0.005\"} 2"));
    CHECK(has_line(text, "easyscale_decision_duration_seconds_bucket{le=\"+Inf\"} 3"));
  }

  TEST_CASE("devices are counted by type and state") {
    Snapshot snapshot;
    snapshot.nodes = {{.name = "one",
                       .alive = true,
                       .devices = {{"x", 0, "a-1", ""}, {"x", 1, "", ""}, {"y", 0, "", "audit"}}},
                      {.name = "two", .alive = false, .devices = {{"x", 0, "", ""}}}};
    const std::string text = metrics_text(metrics_of(snapshot));
    CHECK(has_line(text, "easyscale_devices{type=\"x\",state=\"busy\"} 1"));
    CHECK(has_line(text, "easyscale_devices{type=\"x\",state=\"free\"} 1"));
    CHECK(has_line(text, "easyscale_devices{type=\"x\",state=\"lost\"} 1"));
    CHECK(has_line(text, "easyscale_devices{type=\"y\",state=\"suspect\"} 1"));
    CHECK(has_line(text, "easyscale_nodes{state=\"lost\"} 1"));
    CHECK(has_line(text, "easyscale_cut_nodes 0"));
  }

  TEST_CASE("devices that are set aside and not in use, and nodes without a link, are counted") {
    Snapshot snapshot;
    snapshot.nodes = {{.name = "one",
                       .alive = true,
                       .devices = {{"x", 0, "a-1", "no link", 9000}, {"x", 1, "", "failed", 9000}},
                       .cut_from = {"two"}}};
    const std::string text = metrics_text(metrics_of(snapshot));
    CHECK(has_line(text, "easyscale_devices{type=\"x\",state=\"busy\"} 1"));
    CHECK(has_line(text, "easyscale_devices{type=\"x\",state=\"aside\"} 1"));
    CHECK(has_line(text, "easyscale_cut_nodes 1"));
  }

  TEST_CASE("a node shows its process, its workers and its messages, and no job") {
    ProcessFacts process{.resident_bytes = 5e6, .workers = 2, .workers_resident_bytes = 3e8};
    process.transport.sent_bytes = 12;
    process.transport.refused_key = 3;
    const std::string text = metrics_text(node_metrics(process, {{{"GET", 200}, 4}}));
    CHECK(has_line(text, "easyscale_node_workers 2"));
    CHECK(has_line(text, "easyscale_node_workers_resident_memory_bytes 300000000"));
    CHECK(has_line(text, "easyscale_message_bytes_total{direction=\"sent\"} 12"));
    CHECK(has_line(text, "easyscale_connections_refused_total{cause=\"key\"} 3"));
    CHECK(has_line(text, "easyscale_http_requests_total{method=\"GET\",code=\"200\"} 4"));
    CHECK(has_line(text, "process_resident_memory_bytes 5000000"));
    CHECK(text.find("easyscale_job") == std::string::npos);
  }

  TEST_CASE("names of users cannot break the format") {
    Snapshot snapshot;
    snapshot.jobs = {{.id = "a\"b\\c\nd", .state = "queued"}};
    const std::string text = metrics_text(metrics_of(snapshot));
    CHECK(text.find("job_id=\"a\\\"b\\\\c\\nd\"") != std::string::npos);
  }
}
