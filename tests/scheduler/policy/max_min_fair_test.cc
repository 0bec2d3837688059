#include "scheduler/policy/max_min_fair.h"

#include <doctest/doctest.h>

namespace es::scheduler {

TEST_SUITE("scheduler/policy/max-min-fair") {
  TEST_CASE("a job that has not settled hides no end of a turn of another job") {
    ClusterView view;
    view.now = Seconds(200);
    view.total = *parse_device_set("gpu:2");
    for (const double changed_s : {0.0, 150.0}) {
      JobView job;
      job.number = view.jobs.size();
      job.id = "j" + std::to_string(job.number);
      job.max_p = job.max_devices = 1;
      job.types = {{"gpu"}};
      job.capabilities = {{{"gpu"}, 1.0}};
      job.work.total_steps = job.work.remaining_steps = 1e6;
      job.held = *parse_device_set("gpu:1");
      job.started = true;
      job.changed = Seconds(changed_s);
      view.jobs.push_back(job);
    }
    // The turn of the first job has ended 80 s ago, but it is still changing.
    view.jobs[0].settled = false;
    MaxMinFair policy;
    CHECK(policy.decide(view).again_at == Seconds(270));
    view.jobs[1].changed = Seconds(0);
    CHECK(policy.decide(view).again_at == kNever);
  }
}

}  // namespace es::scheduler
