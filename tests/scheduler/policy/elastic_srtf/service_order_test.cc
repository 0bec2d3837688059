// The index of elastic-srtf changes nothing: the order and the decisions are those of a full scan.
#include "scheduler/policy/elastic_srtf/service_order.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/elastic_srtf/elastic_srtf.h"
#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using test::RandomViews;

constexpr double kRhoMax = 2;

std::vector<QueueEntry> all(const ServiceOrder& order) {
  return order.entries(0, order.size());
}

// The entries without what only an index writes.
std::vector<QueueEntry> without_index(std::vector<QueueEntry> entries) {
  for (QueueEntry& entry : entries) entry.improvable_types = 0;
  return entries;
}

void check_same(const IndexedOrder& indexed, const FullScanOrder& full_scan, double now_s) {
  const std::vector<QueueEntry> entries = without_index(all(indexed));
  CHECK(std::is_sorted(entries.begin(), entries.end()));
  CHECK(entries == all(full_scan));
  CHECK(without_index(indexed.fixed()) == full_scan.fixed());
  for (const QueueEntry& entry : entries) {
    CHECK(indexed.count_before(entry.rank) == full_scan.count_before(entry.rank));
    CHECK(indexed.forecast(entry.slot).alone_at(now_s) ==
          full_scan.forecast(entry.slot).alone_at(now_s));
  }
  CHECK(indexed.load().horizon_s == full_scan.load().horizon_s);
  CHECK(indexed.load().backlog_s == full_scan.load().backlog_s);
  CHECK(indexed.load().groups == full_scan.load().groups);
  CHECK(indexed.load().again_s == full_scan.load().again_s);
}

// What the index adds: the jobs in a pause, and the types that may improve a job. A job that was
// looked at earlier may have more such types, which changes no decision.
void check_index(const IndexedOrder& indexed, const ClusterTable& table) {
  std::set<std::pair<double, std::size_t>> paused;
  Counts paused_devices(table.types(), 0);
  for (const QueueEntry& entry : all(indexed)) {
    const std::uint64_t now = improvable_types_of(indexed.forecast(entry.slot), table);
    CHECK((entry.improvable_types & now) == now);
    if (!entry.paused || entry.pinned) continue;
    paused.emplace(table.rows()[entry.slot].paused_until_s, entry.slot);
    const auto held = table.held(entry.slot);
    for (std::size_t t = 0; !entry.keeps_minimum && t < held.size(); ++t)
      paused_devices[t] += held[t];
  }
  CHECK(indexed.paused() == paused);
  CHECK(indexed.paused_devices() == paused_devices);
}

// What a block says of itself is the sum of what its entries say.
void check_blocks(const IndexedOrder& indexed, const ClusterTable& table) {
  for (const ServiceQueue::Block& block : indexed.queue().blocks()) {
    Counts reassignable(table.types(), 0);
    std::uint64_t improvable_types = 0;
    std::uint32_t preemptible = 0;
    for (const QueueEntry& entry : block.entries) {
      const auto held = table.held(entry.slot);
      for (std::size_t t = 0; entry.is_reassignable() && t < held.size(); ++t)
        reassignable[t] += held[t];
      improvable_types |= entry.improvable_types;
      preemptible += entry.is_preemptible() ? 1 : 0;
    }
    CHECK(block.reassignable == reassignable);
    CHECK(block.improvable_types == improvable_types);
    CHECK(block.preemptible == preemptible);
  }
}

// Views as a cluster under the policy goes through them; `visit` sees each one.
template <class Visit>
void walk(RandomViews& random, std::uint32_t jobs_max, int steps, const Visit& visit) {
  const auto policy = std::move(*make_policy("elastic-srtf"));
  ClusterView view = random.view(jobs_max);
  for (int s = 0; s < steps; ++s) {
    visit(view);
    random.advance(view, policy->decide(view));
  }
}

std::vector<Task> random_tasks(RandomViews& random) {
  std::vector<Task> tasks;
  for (std::uint32_t n = random.draw(1, 12); n > 0; --n) {
    const double width = random.draw(1, 20) / 20.0;
    tasks.push_back({width, width * random.draw(0, 100)});
  }
  return tasks;
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/service order") {
  TEST_CASE("the index, kept over a history, has the order of a full scan") {
    RandomViews random(test::seed("service order"));
    for (int w = 0; w < 40; ++w) {
      ClusterTable table;
      IndexedOrder indexed(kRhoMax);
      FullScanOrder full_scan(kRhoMax);
      walk(random, w % 2 == 0 ? 14 : 200, 60, [&](const ClusterView& view) {
        table.update(view);
        indexed.update(table);
        if (random.one_in(3)) return;  // not every decision needs the order
        indexed.arrange(table);
        ClusterView whole = view;
        whole.changed.reset();
        ClusterTable other;
        other.update(whole);
        full_scan.arrange(other);
        check_same(indexed, full_scan, view.now.count());
        check_index(indexed, table);
        check_blocks(indexed, table);
      });
    }
  }

  TEST_CASE("with the index the policy decides the same as by a full scan") {
    RandomViews random(test::seed("passing over"));
    std::size_t changes = 0;
    for (int w = 0; w < 120; ++w) {
      const double fairness = random.draw(0, 4) / 4.0;
      ElasticSrtf indexed(fairness);
      walk(random, w % 2 == 0 ? 14 : 300, 60, [&](const ClusterView& view) {
        ClusterView whole = view;
        whole.changed.reset();
        const Decisions decisions = indexed.decide(view);
        const Decisions all = ElasticSrtf(fairness, ScanMode::kFullScan).decide(whole);
        CHECK(decisions.grants == all.grants);
        CHECK(decisions.shrinks == all.shrinks);
        CHECK(decisions.again_at == all.again_at);
        changes += decisions.grants.size() + decisions.shrinks.size();
      });
    }
    CHECK(changes > 1000);
  }

  TEST_CASE("what surely keeps or gets nothing would not choose anything else") {
    RandomViews random(test::seed("surely"));
    int kept = 0, nothing = 0;
    for (int w = 0; w < 60; ++w) {
      ClusterTable table;
      walk(random, 20, 40, [&](const ClusterView& view) {
        table.update(view);
        for (const JobRow& row : table.rows()) {
          if (!row.present || row.pinned) continue;
          const auto held = table.held(row.slot);
          Counts left(table.types());
          for (std::size_t t = 0; t < left.size(); ++t)
            left[t] = random.one_in(2) ? held[t] : random.draw(0, table.total()[t]);
          const Choice choice = best_choice(table, row, left, {.efficiency_min = 0.8});
          if (surely_gets_nothing(table, row, left)) {
            ++nothing;
            CHECK(choice.counts.empty());
          }
          if (surely_keeps(table, row, left)) {
            ++kept;
            CHECK(std::equal(held.begin(), held.end(), choice.counts.begin(), choice.counts.end()));
          }
        }
      });
    }
    CHECK(kept > 100);
    CHECK(nothing > 100);
  }

  TEST_CASE("tasks that are surely in time stay in their order, and are") {
    RandomViews random(test::seed("surely in time"));
    int in_time = 0;
    for (int i = 0; i < 20000; ++i) {
      const std::vector<Task> tasks = random_tasks(random);
      const double busy_s = random.draw(0, 50);
      const double deadline_s = random.draw(1, 600);
      if (!surely_in_time(tasks, busy_s, deadline_s)) continue;
      ++in_time;
      const ProjectedOrder order = meet_deadline(tasks, busy_s, deadline_s, 4);
      CHECK(order.done_s <= deadline_s);
      CHECK(std::is_sorted(order.tasks.begin(), order.tasks.end()));
    }
    CHECK(in_time > 1000);
  }
}

}  // namespace es::scheduler
