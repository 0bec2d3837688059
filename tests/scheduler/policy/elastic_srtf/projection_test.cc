#include "scheduler/policy/elastic_srtf/projection.h"

#include <doctest/doctest.h>

namespace es::scheduler {

using Positions = std::vector<std::size_t>;

TEST_SUITE("scheduler/policy/elastic-srtf/projection") {
  TEST_CASE("a task has its width, or what is left of the cluster") {
    FreeProfile profile(0);
    CHECK(profile.allocate({0.5, 5}) == doctest::Approx(10));
    CHECK(profile.allocate({0.25, 5}) == doctest::Approx(20));
    // A quarter for 10 s, three quarters for 10 s, then all of it.
    CHECK(profile.finish({1, 10}) == doctest::Approx(20));
    CHECK(profile.finish({1, 11}) == doctest::Approx(21));
    CHECK(profile.allocate({1, 2.5}) == doctest::Approx(10));
    CHECK(profile.allocate({1, 7.5}) == doctest::Approx(20));
  }

  TEST_CASE("nothing starts while the cluster is busy") {
    CHECK(FreeProfile(7).finish({0.5, 1}) == doctest::Approx(9));
  }

  TEST_CASE("an order in which all tasks are in time does not change") {
    const Task tasks[] = {{1, 1}, {1, 2}, {0.5, 3}};
    CHECK(meet_deadline(tasks, 0, 100, 4).tasks == Positions{0, 1, 2});
  }

  TEST_CASE("a narrow task moves forward only as far as necessary") {
    // Alone it takes 10 s. The wide tasks take 1, 2 and 4 s of the whole cluster.
    const Task tasks[] = {{1, 1}, {1, 2}, {1, 4}, {0.1, 1}};
    CHECK(meet_deadline(tasks, 0, 17, 4).tasks == Positions{0, 1, 2, 3});
    CHECK(meet_deadline(tasks, 0, 13, 4).tasks == Positions{0, 1, 3, 2});
    CHECK(meet_deadline(tasks, 0, 11, 4).tasks == Positions{0, 3, 1, 2});
    const ProjectedOrder order = meet_deadline(tasks, 0, 10, 4);
    CHECK(order.tasks == Positions{3, 0, 1, 2});
    CHECK(order.done_s == doctest::Approx(10));
  }

  TEST_CASE("two wide tasks cannot both be early: the moves end") {
    const Task tasks[] = {{0.5, 10}, {1, 20}, {1, 20}};
    const ProjectedOrder order = meet_deadline(tasks, 0, 30, 5);
    CHECK(order.done_s > 30);
    CHECK(order.tasks.size() == 3);
  }
}

}  // namespace es::scheduler
