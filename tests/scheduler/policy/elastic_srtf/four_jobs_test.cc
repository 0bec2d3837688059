// The example of scheduler/policy/elastic_srtf/README.md and of docs/SCHEDULING.md, in numbers.
#include <doctest/doctest.h>

#include "scheduler/policy/elastic_srtf/elastic_srtf.h"

namespace es::scheduler {
namespace {

struct Example {
  const char* id;
  std::uint32_t max_p;
  double steps_left;
};
constexpr Example kJobs[] = {{"A", 6, 8700}, {"B", 4, 4000}, {"C", 2, 1200}, {"D", 1, 4000}};
enum Slot : std::size_t { kA, kB, kC, kD };

// 60 s after job A has been submitted, jobs B, C and D arrive. A holds all V100.
ClusterView four_jobs() {
  ClusterView view;
  view.now = Seconds(60);
  view.job_seconds = 60;
  view.total = *parse_device_set("t4:4+v100:6");
  view.free = *parse_device_set("t4:4");
  for (const Example& example : kJobs) {
    JobView job;
    job.id = example.id;
    job.number = view.jobs.size();
    job.submitted = job.work.as_of = Seconds(60);
    job.job_seconds_at_submit = 60;
    job.max_p = job.max_devices = example.max_p;
    job.types = {{"t4"}, {"v100"}};
    job.mix_types = true;
    job.capabilities = {{{"t4"}, 5.0}, {{"v100"}, 10.0}};
    job.work.total_steps = job.work.remaining_steps = example.steps_left;
    job.start_pause = Seconds(5);
    job.rescale_pause = Seconds(1);
    view.jobs.push_back(std::move(job));
  }
  JobView& a = view.jobs[kA];
  a.submitted = Seconds(0);
  a.job_seconds_at_submit = 0;
  a.held = *parse_device_set("v100:6");
  a.started = true;
  a.work.total_steps = 12000;
  a.work.steps_per_s = 60;
  return view;
}

struct Arranged {
  explicit Arranged(const ClusterView& view) {
    table.update(view);
    order.arrange(table);
  }
  Ranking ranking(Slot slot) const {
    const double horizon_s = order.load().horizon_s;
    return rank_job(order.forecast(slot), table, {2, fine_step(kCriticalPart * horizon_s)});
  }
  ClusterTable table;
  FullScanOrder order{2};
};

const Change* find(const std::vector<Change>& changes, Slot slot) {
  for (const Change& change : changes)
    if (change.slot == slot) return &change;
  return nullptr;
}

// Carries a decision out as a cluster does in which devices change hands at once.
void carry_out(ClusterView& view, const Decisions& decisions) {
  for (const Change& change : decisions.shrinks)
    for (const DeviceCount& c : change.devices.counts) {
      view.jobs[change.slot].held.remove(c.type, c.count);
      view.free.add(c.type, c.count);
    }
  for (const Change& change : decisions.grants)
    for (const DeviceCount& c : change.devices.counts) {
      view.jobs[change.slot].held.add(c.type, c.count);
      view.free.remove(c.type, c.count);
    }
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/four jobs") {
  TEST_CASE("alone, width, work and key have the values of the table") {
    const Arranged arranged(four_jobs());
    const struct {
      Slot slot;
      double alone_s, width, work_s, key_s;
    } kRows[] = {{kA, 145, 0.75, 108.75, 108},
                 {kB, 100, 0.5, 50, 52.5},
                 {kC, 60, 0.25, 15, 16.25},
                 {kD, 400, 0.125, 50, 50.625}};
    for (const auto& row : kRows) {
      CAPTURE(row.slot);
      const JobForecast& forecast = arranged.order.forecast(row.slot);
      CHECK(forecast.alone_at(60) == doctest::Approx(row.alone_s));
      CHECK(forecast.width == doctest::Approx(row.width));
      CHECK(forecast.task_at(60).work_s == doctest::Approx(row.work_s));
      CHECK(forecast.ordinary_s(60) * forecast.width == doctest::Approx(row.key_s));
      const QueueEntry entry = arranged.ranking(row.slot).entry;
      if (entry.service_class() == ServiceClass::kOrdinary) CHECK(entry.key == log_step(row.key_s));
    }
    CHECK(arranged.order.load().backlog_s == doctest::Approx(223.75));
    CHECK(arranged.order.load().horizon_s == doctest::Approx(400));
  }

  TEST_CASE("no job is late for its share, D is critical, and the order is D, C, B, A") {
    const Arranged arranged(four_jobs());
    const Ranking a = arranged.ranking(kA);
    CHECK(a.late_s == doctest::Approx(205 * 1.06));  // it holds devices
    CHECK(a.bound_s == doctest::Approx(201));
    for (const Slot slot : {kB, kC, kD}) {
      const Ranking other = arranged.ranking(slot);
      CHECK(other.late_s / other.bound_s < a.late_s / a.bound_s);
    }
    for (const Slot slot : {kA, kB, kC})
      CHECK(arranged.ranking(slot).entry.service_class() == ServiceClass::kOrdinary);
    CHECK(arranged.ranking(kD).entry.service_class() == ServiceClass::kCritical);
    std::vector<std::size_t> slots;
    for (const QueueEntry& entry : arranged.order.entries(0, 4)) slots.push_back(entry.slot);
    CHECK(slots == std::vector<std::size_t>{kD, kC, kB, kA});
    const TimelyOrder timely = order_in_time(arranged.order, 60);
    for (std::size_t i = 0; i < timely.moved.size(); ++i) CHECK(timely.moved[i].slot == slots[i]);
  }

  TEST_CASE("B gets the idle T4, and D and C get 1 and 2 V100 of A, which keeps 3") {
    ClusterView view = four_jobs();
    for (const ScanMode scan_mode : {ScanMode::kFullScan, ScanMode::kIndexed}) {
      const Decisions first = ElasticSrtf(0.5, scan_mode).decide(view);
      REQUIRE(first.shrinks.size() == 1);
      REQUIRE(first.grants.size() == 1);
      CHECK(first.shrinks[0] == Change{kA, *parse_device_set("v100:3")});
      CHECK(first.grants[0] == Change{kB, *parse_device_set("t4:4")});
    }
    carry_out(view, ElasticSrtf(0.5).decide(view));
    view.jobs[kA].settled = false;
    view.jobs[kA].work.steps_per_s = 30;
    for (const ScanMode scan_mode : {ScanMode::kFullScan, ScanMode::kIndexed}) {
      const Decisions second = ElasticSrtf(0.5, scan_mode).decide(view);
      CHECK(second.shrinks.empty());
      REQUIRE(second.grants.size() == 2);
      CHECK(find(second.grants, kD)->devices == *parse_device_set("v100:1"));
      CHECK(find(second.grants, kC)->devices == *parse_device_set("v100:2"));
    }
  }
}

}  // namespace es::scheduler
