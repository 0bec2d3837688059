#include "scheduler/policy/common/targets.h"

#include <doctest/doctest.h>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/elastic_srtf/uncontended.h"

namespace es::scheduler {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

JobView job(const char* id, std::uint64_t number, DeviceSet held) {
  JobView view;
  view.id = id;
  view.number = number;
  view.held = std::move(held);
  view.max_p = view.max_devices = 4;
  view.types = {{"a"}, {"b"}};
  view.capabilities = {{{"a"}, 2.0}, {{"b"}, 1.0}};
  for (const DeviceType& type : view.types) view.proposals.push_back({type, 4, 1.5});
  return view;
}

// The decisions for targets that are given as counts of types a and b. The first job is the most
// important.
Decisions decide(const ClusterView& view, const std::vector<Counts>& wanted) {
  ClusterTable table;
  table.update(view);
  Targets targets(table);
  for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
    targets.set(slot, wanted[slot]);
    targets.rank(slot);
  }
  const Decisions decisions = carry_out(table, targets);
  const Status status = check_decisions(view, decisions);
  CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
  return decisions;
}

using Changes = std::vector<Change>;

ClusterView two_jobs(const char* first, const char* second) {
  ClusterView view;
  view.total = devices("a:4+b:4");
  const DeviceSet none;
  view.jobs = {job("x", 0, first ? devices(first) : none),
               job("y", 1, second ? devices(second) : none)};
  view.free = view.total;
  for (const JobView& j : view.jobs)
    for (const DeviceCount& c : j.held.counts) view.free.remove(c.type, c.count);
  return view;
}

}  // namespace

TEST_SUITE("scheduler/policy/targets") {
  TEST_CASE("free devices are granted at once, the others are called back first") {
    const Decisions d = decide(two_jobs(nullptr, "a:4"), {{2, 0}, {2, 0}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks == Changes{{1, devices("a:2")}});
    const Decisions later = decide(two_jobs(nullptr, "a:2"), {{2, 0}, {2, 0}});
    CHECK(later.grants == Changes{{0, devices("a:2")}});
    CHECK(later.shrinks.empty());
  }

  TEST_CASE("a job migrates in one step when its new devices are free") {
    const Decisions d = decide(two_jobs("b:4", nullptr), {{4, 0}, {0, 0}});
    CHECK(d.grants == Changes{{0, devices("a:4")}});
    CHECK(d.shrinks == Changes{{0, devices("b:4")}});
  }

  TEST_CASE("of two jobs that change places the less important one releases its devices first") {
    const Decisions d = decide(two_jobs("b:4", "a:4"), {{4, 0}, {0, 4}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks == Changes{{1, devices("a:4")}});
  }

  TEST_CASE("a job waits for room in its queue until another job of the queue has left") {
    ClusterView view = two_jobs("a:2", nullptr);
    view.queues = *completed_queues(
        {{.name = "x", .guarantee = devices("a:2"), .borrow = {{{"a"}, 0}, {{"b"}, 1}}}});
    for (JobView& j : view.jobs) j.queue = "x";
    // The first job shall have b:4 later, which its queue may not have; a:2 of the second one are
    // free, but belong to the queue only after the first job has given its own back.
    CHECK(decide(view, {{0, 0}, {2, 0}}).shrinks == Changes{{0, devices("a:2")}});
    CHECK(decide(view, {{0, 0}, {2, 0}}).grants.empty());
    ClusterTable table;
    table.update(view);
    Targets targets(table);
    CHECK(targets.choices_of(0) == Counts{2, 1});
    targets.set(0, Counts{1, 0});
    CHECK(targets.choices_of(0) == Counts{2, 1});
    CHECK(targets.choices_of(1) == Counts{1, 1});
    CHECK(targets.within_queue(1, {9, 9}) == Counts{1, 1});
  }

  TEST_CASE("a job without a target is suspended, unless it must not be") {
    ClusterView view = two_jobs("a:2", nullptr);
    CHECK(decide(view, {{0, 0}, {0, 0}}).shrinks == Changes{{0, devices("a:2")}});
    view.jobs[0].may_suspend = false;
    CHECK(decide(view, {{0, 0}, {0, 0}}).shrinks.empty());
  }

  TEST_CASE("a job that has not settled waits for more devices, and may lose some") {
    ClusterView view = two_jobs("a:2", nullptr);
    view.jobs[0].settled = false;
    CHECK(decide(view, {{4, 0}, {0, 0}}).grants.empty());
    CHECK(decide(view, {{1, 0}, {0, 0}}).shrinks == Changes{{0, devices("a:1")}});
  }

  TEST_CASE("all jobs are served at once where there is enough for all") {
    ClusterTable table;
    table.update(two_jobs("a:4", nullptr));
    CHECK_FALSE(serve_uncontended(table).has_value());  // y would be faster on what x has
    ClusterView view = two_jobs("a:4", nullptr);
    view.jobs[1].types = {{"b"}};
    view.jobs[1].capabilities = {{{"b"}, 1.0}};
    table.update(view);
    const auto all = serve_uncontended(table);
    REQUIRE(all.has_value());
    CHECK(all->grants == Changes{{1, devices("b:4")}});
  }
}

}  // namespace es::scheduler
