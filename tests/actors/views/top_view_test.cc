#include "actors/views/top_view.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace es::actors;

namespace {

JobView job(const std::string& id, const std::string& state, std::uint64_t submitted) {
  JobView made;
  made.id = id;
  made.state = state;
  made.submitted_unix_ms = submitted;
  made.step = 30;
  made.last_step = 60;
  return made;
}

TopFacts facts() {
  TopFacts made{.head = "ipc:///head", .time = "now"};
  NodeView node{.name = "n1", .alive = true};
  node.devices = {{.type = "cpu-avx2", .index = 0, .job = "b-2", .suspect = {}},
                  {.type = "cpu-avx2", .index = 1, .job = {}, .suspect = "wrong"}};
  made.nodes = {node, {.name = "n2"}};
  made.jobs = {job("a-1", "finished", 1), job("b-2", "running", 2), job("c-3", "failed", 3),
               job("d-4", "queued", 4)};
  return made;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("actors/views/top_view") {
  TEST_CASE("the cluster: devices, nodes, and jobs with the live ones first") {
    const std::string text = plain_text(cluster_screen(facts(), {.rows = 40, .columns = 80}));
    CHECK(contains(text,
                   "devices in use 1/2 [##########..........]  jobs: 1 failed, 1 finished, "
                   "1 queued, 1 running"));
    CHECK(contains(text, "n1    alive  cpu-avx2  1/2"));
    CHECK(contains(text, "n2    lost"));
    CHECK(contains(text, "50.0 %  30/60"));
    CHECK(text.find("b-2") < text.find("d-4"));
    CHECK(text.find("d-4") < text.find("c-3"));
    CHECK(text.find("c-3") < text.find("a-1"));
  }

  TEST_CASE("a screen has no more lines than the terminal, and counts what is missing") {
    TopFacts many = facts();
    for (int i = 0; i < 100; ++i) {
      many.jobs.push_back(job("x-" + std::to_string(i), "running", 5));
      many.nodes.push_back({.name = "m" + std::to_string(i), .alive = true});
    }
    for (const int rows : {1, 8, 24, 60}) {
      CAPTURE(rows);
      const Screen screen = cluster_screen(many, {.rows = rows, .columns = 80});
      CHECK(screen.size() <= static_cast<std::size_t>(std::max(rows, 8)));
      CHECK(contains(plain_text(screen), "more"));
    }
  }

  TEST_CASE("a job: progress, workers and the newest stages") {
    JobView view = job("b-2", "running", 2);
    view.workers = {{.node = "n1",
                     .device_type = "cpu-avx2",
                     .rank_begin = 0,
                     .rank_end = 4,
                     .pid = 77,
                     .slowness = 1.5}};
    for (int i = 1; i <= 50; ++i)
      view.stages.push_back({.placement = "cpu-avx2:" + std::to_string(i), .steps = 1});
    const Screen screen = job_screen(view, facts(), {.rows = 24, .columns = 80});
    const std::string text = plain_text(screen);
    CHECK(screen.size() <= 24);
    CHECK(contains(text, "[##########..........] 50.0 %"));
    CHECK(contains(text, "n1/cpu-avx2:0  0 to 3"));
    CHECK(contains(text, "1.5"));
    CHECK(contains(text, "cpu-avx2:50"));
    CHECK_FALSE(contains(text, "cpu-avx2:2 "));
  }

  TEST_CASE("a warning is shown") {
    TopFacts with = facts();
    with.warning = "the head does not answer";
    CHECK(contains(plain_text(cluster_screen(with, {})), "warning: the head does not answer"));
    CHECK(contains(plain_text(job_screen(job("a-1", "queued", 1), with, {})),
                   "warning: the head does not answer"));
  }

  TEST_CASE("a bar is full at the end and never longer") {
    CHECK(bar_text(0, 4) == "[....]");
    CHECK(bar_text(0.5, 4) == "[##..]");
    CHECK(bar_text(1, 4) == "[####]");
    CHECK(bar_text(7, 4) == "[####]");
  }
}
