#include "scheduler/policy/common/price_choice.h"

#include <doctest/doctest.h>

namespace es::scheduler {
namespace {

const DeviceType kT4{"t4"}, kV100{"v100"};

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

const DeviceSet kTotal = devices("t4:8+v100:8");
// For an hour. A V100 is three times as fast and costs five times as much.
const Prices kPrices{.per_hour = {{kT4, 3600}, {kV100, 5 * 3600}}, .spot_per_hour = {}};

// A waiting job of 4 ESTs with 1200 local steps: 1200 s on a T4, and 400 s on a V100.
JobView waiting() {
  JobView job{.id = JobId(1, 'j')};
  job.max_p = job.max_devices = 4;
  job.types = {kT4, kV100};
  job.capabilities = {{kT4, 1}, {kV100, 3}};
  job.work = {.total_steps = 1200, .remaining_steps = 1200};
  job.start_pause = Seconds(0);
  return job;
}

std::optional<PriceChoice> choose(const JobView& job, double now_s = 0) {
  return price_choice(job, kTotal, kPrices, Seconds(now_s));
}

}  // namespace

TEST_SUITE("scheduler/policy/price choice") {
  TEST_CASE("a price is that of the type, and on a spot node its own if there is one") {
    const Prices prices{.per_hour = {{kT4, 2}, {kV100, 3}}, .spot_per_hour = {{kT4, 0.5}}};
    CHECK(prices.of(kT4) == 2);
    CHECK(prices.of(kT4, true) == 0.5);
    CHECK(prices.of(kV100, true) == 3);
    CHECK(prices.of({"other"}) == 0);
    CHECK(prices.of(devices("t4:2+v100:1")) == 7);
  }

  TEST_CASE("without prices, or without a deadline and a budget, a job is not limited") {
    JobView job = waiting();
    CHECK(!choose(job));
    job.deadline = Seconds(5000);
    CHECK(choose(job));
    CHECK(!price_choice(job, kTotal, {}, Seconds(0)));
    job.work.remaining_steps = kUnknownLength;
    CHECK(!choose(job));
  }

  TEST_CASE("a job with a deadline may use the cheapest devices with which it is in time") {
    JobView job = waiting();
    // Four T4 cost as much as one, and the job ends first on them.
    job.deadline = Seconds(2000);
    CHECK(choose(job)->types == std::vector{kT4});
    CHECK(choose(job)->max_devices == 4);
    // It must begin on them before 2000 - 1.05 * 300 s.
    CHECK(choose(job)->again_at == Seconds(1685));
    // Too late for T4: four V100 need 100 s, and cost as much as two or one.
    CHECK(choose(job, 1690)->types == std::vector{kV100});
    CHECK(choose(job, 1690)->max_devices == 4);
    CHECK(choose(job, 1690)->again_at == Seconds(1895));
    // In time on nothing: it may have everything.
    CHECK(!choose(job, 1896));
    CHECK(!choose(job, 3000));
  }

  TEST_CASE("devices that waste more cost more, so a deadline far away gives few of them") {
    JobView job = waiting();
    job.deadline = Seconds(5000);
    job.sync = SyncCurve({{4, 3}});  // a step takes 4, 3, 4 and 4 s on 1 to 4 T4
    CHECK(choose(job)->max_devices == 1);
    job.deadline = Seconds(1000);  // one T4 needs 1200 s, two 900 s
    CHECK(choose(job)->types == std::vector{kT4});
    CHECK(choose(job)->max_devices == 2);
  }

  TEST_CASE(
      "with a budget only sets that it suffices for are used, and if none does, the cheapest") {
    JobView job = waiting();
    job.budget_left = 2500;
    CHECK(!choose(job));  // it suffices for every set
    job.budget_left = 1500;
    CHECK(choose(job)->types == std::vector{kT4});  // V100 cost 2000
    job.budget_left = 600;
    CHECK(choose(job)->types == std::vector{kT4});
    // The deadline cannot be met within the budget.
    job.deadline = Seconds(200);
    job.budget_left = 1500;
    CHECK(choose(job)->types == std::vector{kT4});
    job.budget_left = 2500;
    CHECK(choose(job)->types == std::vector{kV100});
  }

  TEST_CASE("pauses cost too, and devices that a job holds have none") {
    JobView job = waiting();
    job.deadline = Seconds(2000);
    job.start_pause = Seconds(100);
    // Each T4 costs 100 more, so four of them are more than 2 % dearer than one.
    CHECK(choose(job)->max_devices == 1);
    job.started = true;
    job.held = devices("t4:4");
    job.rescale_pause = Seconds(100);
    job.work.steps_per_s = 4;
    CHECK(choose(job)->max_devices == 4);
  }

  TEST_CASE("the choice is written into the bounds of the job") {
    JobView job = waiting();
    job.deadline = Seconds(2000);
    job.gang_type = kV100;
    job.held = devices("t4:1");
    job.started = true;
    job.proposals = {{kT4, 3, 4.0}, {kT4, 4, 4.0}, {kV100, 1, 2.0}};
    const JobView before = job;
    CHECK(limit_by_price(job, kTotal, kPrices, Seconds(0)) > Seconds(0));
    CHECK(job.types == std::vector{kT4});
    CHECK(job.gang_type.name.empty());
    CHECK(job.price_limit == job.max_devices * 3600.0);
    CHECK(job.proposals.size() <= 1);
    job = before;
    job.budget_left = 0;
    limit_by_price(job, kTotal, kPrices, Seconds(0));
    CHECK(job.pinned == DeviceSet());
    job = before;
    job.pinned = devices("v100:2");
    limit_by_price(job, kTotal, kPrices, Seconds(0));
    CHECK(job.types == before.types);
  }
}

}  // namespace es::scheduler
