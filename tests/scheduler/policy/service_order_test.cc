// The state that elastic-srtf keeps between decisions, and the jobs that it skips, change no
// decision.
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

std::vector<Place> all(const PlaceList& list) {
  std::vector<Place> places;
  for (const PlaceList::Block& block : list.blocks())
    places.insert(places.end(), block.places.begin(), block.places.end());
  CHECK(places.size() == list.size());
  return places;
}

// A place that was looked at earlier may wake up for more types, which changes no decision.
void check_same(const ServiceOrder& kept, const ServiceOrder& fresh) {
  const std::vector<Place> places = all(kept.places());
  const std::vector<Place> others = all(fresh.places());
  CHECK(std::is_sorted(places.begin(), places.end()));
  REQUIRE(places.size() == others.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place place = places[i];
    CHECK((place.wakes & others[i].wakes) == others[i].wakes);
    place.wakes = others[i].wakes;
    CHECK(place == others[i]);
    CHECK(kept.alone_s(place.slot) == fresh.alone_s(place.slot));
  }
  CHECK(kept.fixed() == fresh.fixed());
  CHECK(kept.paused() == fresh.paused());
  CHECK(kept.paused_devices() == fresh.paused_devices());
  CHECK(kept.horizon_s() == fresh.horizon_s());
  CHECK(kept.backlog_s() == fresh.backlog_s());
  CHECK(kept.widths() == fresh.widths());
  CHECK(kept.again_s() == fresh.again_s());
}

// The values of a block are the sums of its places.
void check_blocks(const ServiceOrder& order, const Board& board) {
  for (const PlaceList::Block& block : order.places().blocks()) {
    Counts in_turn(board.types(), 0);
    std::uint64_t wakes = 0;
    std::uint32_t losers = 0;
    for (const Place& place : block.places) {
      const auto held = board.held(place.slot);
      for (std::size_t t = 0; place.is_in_turn() && t < in_turn.size(); ++t) in_turn[t] += held[t];
      wakes |= place.wakes;
      losers += place.may_lose() ? 1 : 0;
    }
    CHECK(block.in_turn == in_turn);
    CHECK(block.wakes == wakes);
    CHECK(block.losers == losers);
  }
}

// Views in the order in which a cluster under the policy has them. `visit` sees each one.
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
  TEST_CASE("the order that is kept over a history equals a new ranking of all jobs") {
    RandomViews random(test::seed("service order"));
    for (int w = 0; w < 40; ++w) {
      Board board;
      ServiceOrder kept(kRhoMax);
      walk(random, w % 2 == 0 ? 14 : 200, 60, [&](const ClusterView& view) {
        board.update(view);
        kept.update(board);
        if (random.one_in(3)) return;  // Not every decision needs the order.
        kept.arrange(board);
        ClusterView whole = view;
        whole.changed.reset();
        Board other;
        other.update(whole);
        ServiceOrder fresh(kRhoMax);
        fresh.update(other);
        fresh.arrange(other);
        check_same(kept, fresh);
        check_blocks(kept, board);
      });
    }
  }

  TEST_CASE(
      "skipping jobs that keep their devices gives the same decisions as looking at all jobs") {
    RandomViews random(test::seed("passing over"));
    std::size_t changes = 0;
    for (int w = 0; w < 120; ++w) {
      const double fairness = random.draw(0, 2) / 2.0;
      ElasticSrtf kept(fairness);
      walk(random, w % 2 == 0 ? 14 : 300, 60, [&](const ClusterView& view) {
        ClusterView whole = view;
        whole.changed.reset();
        const Decisions decisions = kept.decide(view);
        const Decisions all = ElasticSrtf(fairness, ElasticSrtf::Pass::kAll).decide(whole);
        CHECK(decisions.grants == all.grants);
        CHECK(decisions.shrinks == all.shrinks);
        CHECK(decisions.again_s == all.again_s);
        changes += decisions.grants.size() + decisions.shrinks.size();
      });
    }
    CHECK(changes > 1000);
  }

  TEST_CASE("jobs that certainly keep or get nothing would choose the same") {
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

  TEST_CASE("tasks that are certainly in time stay in their order, and they are in time") {
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
