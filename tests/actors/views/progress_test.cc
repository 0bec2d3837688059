#include "actors/views/progress.h"

#include <doctest/doctest.h>

#include <sstream>

namespace es::actors {
namespace {

JobView at_step(std::uint64_t step, const std::string& placement = "cpu-avx2:2") {
  JobView job;
  job.state = "running";
  job.step = step;
  job.last_step = 1000;
  job.placement = placement;
  job.loss_last = 1.5F;
  job.samples_per_second_now = 100;
  job.samples_per_second_mean = 90;
  return job;
}

struct Terminal {
  std::ostringstream out, err;
  int columns = 0;
  Console console{out, err, [this] { return columns; }};
};

}  // namespace

TEST_SUITE("actors/esctl/progress") {
  TEST_CASE("the text has step, loss, throughput, devices and state") {
    CHECK(progress_text(at_step(27)) ==
          "step 27/1000  loss 1.5000  100.0 samples/s  cpu-avx2:2  running");
  }

  JobView evaluated() {
    JobView job = at_step(400);
    job.stages = {{"cpu-avx2:2", 400, 40.0, 0}};
    job.evaluations = {{.version = 300, .total = 8, .metrics = {{"top1", 0.375}}}};
    return job;
  }

  TEST_CASE("the text has the time left and the newest evaluation") {
    CHECK(progress_text(evaluated()) ==
          "step 400/1000  loss 1.5000  100.0 samples/s  1 min 0 s left  accuracy 37.50 %  "
          "cpu-avx2:2  running");
  }

  TEST_CASE("what has no room beside a bar is left out") {
    const auto has = [](int columns, const std::string& part) {
      return progress_bar(evaluated(), columns).find(part) != std::string::npos;
    };
    for (int columns = 1; columns <= 140; ++columns) {
      CAPTURE(columns);
      CHECK(progress_bar(evaluated(), columns).size() <= static_cast<std::size_t>(columns));
      if (has(columns, "accuracy")) CHECK(has(columns, "[##"));
      if (has(columns, "accuracy")) CHECK(has(columns, "left"));
    }
    const std::string rest = "step 400/1000  loss 1.5000  100.0 samples/s  1 min 0 s left  ";
    CHECK(has(120, "accuracy"));
    CHECK(progress_bar(evaluated(), 96).ends_with("] " + rest + "cpu-avx2:2  running"));
    CHECK(progress_bar(evaluated(), 84).ends_with("] " + rest + "running"));
    CHECK(progress_bar(evaluated(), 74) == rest + "running");
    CHECK_FALSE(has(66, "left"));
    CHECK(has(66, "cpu-avx2:2  running"));
  }

  TEST_CASE("an evaluation causes a plain line") {
    PlainProgress plain;
    JobView job = evaluated();
    CHECK(plain.worth_a_line(job));
    CHECK_FALSE(plain.worth_a_line(job));
    job.evaluations.push_back({.version = 400, .total = 8, .metrics = {{"top1", 0.5}}});
    CHECK(plain.worth_a_line(job));
  }

  TEST_CASE("a job without steps has no rate") {
    JobView paused = at_step(27);
    paused.samples_per_second_now = 0;
    paused.state = "paused";
    CHECK(progress_text(paused) == "step 27/1000  loss 1.5000  cpu-avx2:2  paused");
  }

  TEST_CASE("the stage is named from the second one on") {
    JobView job = at_step(27);
    job.stages.resize(2);
    CHECK(progress_text(job).find("  stage 2  ") != std::string::npos);
  }

  TEST_CASE("the bar is filled by the part that is done") {
    CHECK(progress_bar(at_step(500), 200).starts_with("[###############...............] step 500"));
    CHECK(progress_bar(at_step(2000), 200).starts_with("[##############################] "));
    JobView unknown = at_step(0);
    unknown.last_step = 0;
    CHECK(progress_bar(unknown, 200).starts_with("[....."));
  }

  TEST_CASE("a bar is never wider than the terminal") {
    for (int columns = 1; columns <= 120; ++columns)
      CHECK(progress_bar(at_step(500), columns).size() <= static_cast<std::size_t>(columns));
  }

  TEST_CASE("plain lines are printed for every twentieth of the steps") {
    PlainProgress plain;
    int lines = 0;
    for (std::uint64_t step = 0; step <= 1000; ++step) lines += plain.worth_a_line(at_step(step));
    CHECK(lines == 21);
  }

  TEST_CASE("a change of devices or state causes a plain line") {
    PlainProgress plain;
    CHECK(plain.worth_a_line(at_step(1)));
    CHECK_FALSE(plain.worth_a_line(at_step(2)));
    CHECK(plain.worth_a_line(at_step(2, "cpu-scalar:1")));
    JobView rescaling = at_step(2, "cpu-scalar:1");
    rescaling.state = "rescaling";
    CHECK(plain.worth_a_line(rescaling));
  }

  TEST_CASE("on a terminal one line is rewritten, and ended at last") {
    Terminal screen;
    screen.columns = 60;
    {
      Progress progress(screen.console, false);
      progress.show(at_step(1));
      progress.show(at_step(2));
    }
    const std::string text = screen.err.str();
    CHECK(text.starts_with("\rstep 1/"));
    CHECK(text.find("\x1b[K\rstep 2/") != std::string::npos);
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(screen.out.str().empty());
  }

  TEST_CASE("quiet shows nothing") {
    Terminal screen;
    Progress(screen.console, true).show(at_step(1));
    CHECK(screen.err.str().empty());
  }
}

}  // namespace es::actors
