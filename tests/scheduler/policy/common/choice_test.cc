#include "scheduler/policy/common/choice.h"

#include <doctest/doctest.h>

namespace es::scheduler {
namespace {

// At 1000 s, a job of 4 ESTs and that age holds 2 of 4 devices, and the others are free. It has
// 10000 local steps left, and a device makes one in a second.
ClusterView changed_times(std::uint32_t changes) {
  const DeviceType gpu{"gpu"};
  JobView job;
  job.id = "j";
  job.max_p = job.max_devices = 4;
  job.types = {gpu};
  job.capabilities = {{gpu, 1}};
  job.held.add(gpu, 2);
  job.proposals = {{gpu, 2, 2}};
  job.started = true;
  job.rescale_pause = Seconds(60);
  job.work = {.total_steps = 20000, .remaining_steps = 10000, .steps_per_s = 2};
  job.work.as_of = Seconds(1000);
  job.work.changes = changes;
  ClusterView view;
  view.free.add(gpu, 2);
  view.total.add(gpu, 4);
  view.jobs = {job};
  view.now = Seconds(1000);
  return view;
}

Choice choose(std::uint32_t changes, const ChoiceLimits& limits = {}) {
  ClusterTable table;
  table.update(changed_times(changes));
  return best_choice(table, table.rows()[0], Counts{4}, limits);
}

}  // namespace

TEST_SUITE("scheduler/policy/choice") {
  TEST_CASE("a job that often changes is given devices only if they pay before its next change") {
    // It would be twice as fast, so it gains half of the time. One and a half pauses are 90 s.
    CHECK(choose(0).counts == Counts{4});
    CHECK(choose(5).counts == Counts{4});  // gains 100 s between two changes
    CHECK(choose(5).again_s == kNeverS);
    CHECK(choose(6).counts == Counts{2});  // gains 83 s
    CHECK(choose(6).again_s == 1080);      // 90 s then
  }

  TEST_CASE("a job that would not end in time with what it holds is given more in any case") {
    CHECK(choose(6, {.in_time_s = 5000}).counts == Counts{2});
    CHECK(choose(6, {.in_time_s = 4999}).counts == Counts{4});
  }
}

}  // namespace es::scheduler
