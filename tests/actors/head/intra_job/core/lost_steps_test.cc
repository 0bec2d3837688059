#include "actors/head/intra_job/core/lost_steps.h"

#include <doctest/doctest.h>

namespace es::actors::intra_job {
namespace {

TEST_CASE("an interruption costs the step that was running") {
  LostSteps steps(false);
  CHECK(steps.install({1}, 0, 0, 10) == 0);  // The first placement.
  steps.go();
  CHECK(steps.install({2}, 4, 4, 10) == 1);
  CHECK(steps.install({3}, 4, 4, 10) == 0);  // Interrupted before the job continued.
  steps.go();
  CHECK(steps.install({4}, 5, 4, 10) == 1);  // A line is still missing.
  steps.go();
  CHECK(steps.install({5}, 10, 10, 10) == 0);  // No line comes after the last version.
  CHECK(steps.total() == 2);
}

TEST_CASE("a generation counts once, however many members it has") {
  LostSteps steps(false);
  steps.go();
  CHECK(steps.install({1}, 2, 7, 10) == 6);
  CHECK(steps.install({1}, 2, 7, 10) == 0);
  CHECK(steps.total() == 6);
}

TEST_CASE("a planned change costs nothing") {
  LostSteps steps(false);
  steps.go();
  steps.drained();
  CHECK(steps.install({1}, 4, 4, 10) == 0);
}

TEST_CASE("the loss of all members costs the steps after the version that is left") {
  LostSteps steps(false);
  steps.go();
  CHECK(steps.install({1}, 2, 7, 10) == 6);
}

TEST_CASE("workers train on while the head is away") {
  LostSteps steps(true);
  CHECK(steps.install({1}, 3, 3, 10) == 1);
}

}  // namespace
}  // namespace es::actors::intra_job
