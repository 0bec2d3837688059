// What elastic-srtf keeps between decisions, and what it skips, changes nothing.
#include "scheduler/policy/service_order.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "scheduler/policy/choice.h"
#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using test::RandomViews;

constexpr double kRhoMax = 2;

void check_same(const std::vector<Place>& kept, const std::vector<Place>& fresh) {
  REQUIRE(kept.size() == fresh.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(kept[i].number == fresh[i].number);
    CHECK(kept[i].slot == fresh[i].slot);
    CHECK(kept[i].rank == fresh[i].rank);
    CHECK(kept[i].key == fresh[i].key);
    CHECK(kept[i].alone_s == fresh[i].alone_s);
    CHECK(kept[i].best_off == fresh[i].best_off);
    CHECK(kept[i].paused == fresh[i].paused);
  }
}

// Views as a cluster under the policy goes through them; `visit` sees each one.
template <class Visit>
void walk(RandomViews& random, std::uint32_t jobs_max, int steps, const Visit& visit) {
  const auto policy = std::move(*make_policy("elastic-srtf"));
  ClusterView view = random.view(jobs_max);
  for (int s = 0; s < steps; ++s) {
    visit(view);
    random.move_on(view, policy->decide(view));
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

TEST_SUITE("scheduler/policy/service order") {
  TEST_CASE("kept over a history it is what ranking everybody anew gives") {
    RandomViews random(test::seed("service order"));
    for (int w = 0; w < 40; ++w) {
      Board board;
      ServiceOrder kept(kRhoMax);
      walk(random, w % 2 == 0 ? 14 : 200, 60, [&](const ClusterView& view) {
        board.update(view);
        kept.update(board);
        if (random.one_in(3)) return;  // not every decision needs the order
        kept.arrange(board);
        ClusterView whole = view;
        whole.changed.reset();
        Board other;
        other.update(whole);
        ServiceOrder fresh(kRhoMax);
        fresh.update(other);
        fresh.arrange(other);
        check_same(kept.places(), fresh.places());
        CHECK(kept.again_s() == fresh.again_s());
        CHECK(std::is_sorted(kept.places().begin(), kept.places().end()));
      });
    }
  }

  TEST_CASE("what surely keeps or gets nothing would not choose anything else") {
    RandomViews random(test::seed("surely"));
    int kept = 0, nothing = 0;
    for (int w = 0; w < 60; ++w) {
      Board board;
      walk(random, 20, 40, [&](const ClusterView& view) {
        board.update(view);
        for (const Board::Row& row : board.rows()) {
          if (!row.present || row.pinned) continue;
          const auto held = board.held(row.slot);
          Counts left(board.types());
          for (std::size_t t = 0; t < left.size(); ++t)
            left[t] = random.one_in(2) ? held[t] : random.draw(0, board.total()[t]);
          const Choice choice = best_choice(board, row, left, {.efficiency_min = 0.8});
          if (surely_nothing(board, row, left)) {
            ++nothing;
            CHECK(choice.counts.empty());
          }
          if (surely_keeps(board, row, left)) {
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
      const Order order = meet_deadline(tasks, busy_s, deadline_s, 4);
      CHECK(order.done_s <= deadline_s);
      CHECK(std::is_sorted(order.tasks.begin(), order.tasks.end()));
    }
    CHECK(in_time > 1000);
  }
}

}  // namespace es::scheduler
