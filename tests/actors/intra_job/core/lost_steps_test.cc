#include "actors/intra_job/core/lost_steps.h"

#include <doctest/doctest.h>

namespace es::actors::intra_job {
namespace {

TEST_CASE("an interruption costs the step that was under way") {
  LostSteps steps(false);
  CHECK(steps.install(0, 0, 10) == 0);  // the first placement
  steps.go();
  CHECK(steps.install(4, 4, 10) == 1);
  CHECK(steps.install(4, 4, 10) == 0);  // interrupted before it went on
  steps.go();
  CHECK(steps.install(5, 4, 10) == 1);  // a line is still to come
  steps.go();
  CHECK(steps.install(10, 10, 10) == 0);  // nothing comes after the last version
}

TEST_CASE("a planned change costs nothing") {
  LostSteps steps(false);
  steps.go();
  steps.drained();
  CHECK(steps.install(4, 4, 10) == 0);
}

TEST_CASE("the loss of all members costs what came after the version that is left") {
  LostSteps steps(false);
  steps.go();
  CHECK(steps.install(2, 7, 10) == 6);
}

TEST_CASE("workers go on while the head is away") {
  LostSteps steps(true);
  CHECK(steps.install(3, 3, 10) == 1);
}

}  // namespace
}  // namespace es::actors::intra_job
