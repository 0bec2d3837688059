#include "scheduler/plans/plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

// For any number of devices.
std::vector<RankedPlan> all_plans(const PlanQuery& query) {
  const PlanList list = list_plans(query, {.plans = 1'000'000, .steps = 1'000'000'000});
  CHECK(list.complete);
  return list.plans;
}

// All plans, enumerated in the simplest way: all device counts, and all numbers of ESTs per device.
class BruteForce {
 public:
  explicit BruteForce(const PlanQuery& query) : query_(query) {
    extend(query.available.counts.begin(), {});
  }

  // For each set of devices the fastest plan, with the largest A that keep its f. Dominated plans
  // are left out.
  std::vector<RankedPlan> plans() const {
    std::vector<RankedPlan> kept;
    for (const auto& [text, plan] : best_)
      if (std::none_of(best_.begin(), best_.end(),
                       [&](const auto& other) { return dominates(other.second, plan); }))
        kept.push_back(plan);
    return kept;
  }

 private:
  using Next = std::vector<DeviceCount>::const_iterator;

  void extend(Next next, const Plan& plan) {
    if (next == query_.available.counts.end()) {
      consider(plan);
      return;
    }
    extend(next + 1, plan);
    for (std::uint32_t n = 1; n <= next->count; ++n)
      for (std::uint32_t a = 1; a <= query_.max_p; ++a) {
        Plan longer = plan;
        longer.parts.push_back({next->type, n, a});
        extend(next + 1, longer);
      }
  }

  void consider(const Plan& plan) {
    std::uint32_t nest = 0;
    for (const PlanPart& part : plan.parts) nest += part.devices * part.ests_per_device;
    if (nest < query_.max_p || (!query_.mix_types && plan.parts.size() > 1)) return;
    if (query_.max_devices != 0 && plan.devices().total() > query_.max_devices) return;
    const RankedPlan candidate{plan, estimate(plan, query_.capabilities, query_.max_p)};
    const auto [at, is_new] = best_.try_emplace(plan.devices().text(), candidate);
    const auto key = [](const RankedPlan& p) {
      return std::tuple(p.estimate.f_seconds_per_step, -static_cast<double>(p.estimate.nest));
    };
    if (!is_new && key(candidate) < key(at->second)) at->second = candidate;
  }

  bool dominates(const RankedPlan& a, const RankedPlan& b) const {
    const DeviceSet a_set = a.plan.devices();
    const DeviceSet b_set = b.plan.devices();
    if (!query_.mix_types && a_set.counts[0].type != b_set.counts[0].type) return false;
    return a_set != b_set && b_set.contains(a_set) &&
           a.estimate.f_seconds_per_step <= b.estimate.f_seconds_per_step;
  }

  const PlanQuery& query_;
  std::map<std::string, RankedPlan> best_;
};

PlanQuery random_query(std::mt19937_64& random) {
  const auto draw = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random() % (high - low + 1));
  };
  PlanQuery query;
  const std::uint32_t types = draw(1, 3);
  query.max_p = types == 3 ? draw(1, 5) : draw(1, 8);
  query.mix_types = draw(0, 3) != 0;
  query.max_devices = draw(0, 2) == 0 ? draw(1, query.max_p) : 0;
  for (std::uint32_t i = 0; i < types; ++i) {
    const DeviceType type{std::string(1, static_cast<char>('a' + i))};
    // Half of the cases have small integers, so that step times of different types coincide.
    query.capabilities[type] = draw(0, 1) == 0 ? draw(1, 4) : draw(1, 999) / 100.0;
    query.available.add(type, draw(0, types == 3 ? 4 : 7));
  }
  if (draw(0, 2) == 0) query.sync.set({draw(2, 6), draw(1, 400) / 100.0});
  if (draw(0, 5) == 0) query.sync.set({draw(1, 6), draw(1, 400) / 100.0});
  return query;
}

std::vector<std::string> texts(std::vector<RankedPlan> plans) {
  std::vector<std::string> result;
  for (const RankedPlan& p : plans) {
    std::string text;
    for (const PlanPart& part : p.plan.parts)
      text += part.type.name + ":" + std::to_string(part.devices) + "x" +
              std::to_string(part.ests_per_device) + " ";
    result.push_back(text);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

TEST_SUITE("scheduler/plans") {
  TEST_CASE("one type: only numbers of devices that shorten a step are listed") {
    PlanQuery query{.max_p = 6, .capabilities = {{{"a"}, 2.0}}, .available = devices("a:6")};
    const std::vector<RankedPlan> plans = all_plans(query);
    // Plans with 4 and 5 devices need two rounds of ESTs, as the plan with 3 does.
    CHECK(texts(plans) == std::vector<std::string>{"a:1x6 ", "a:2x3 ", "a:3x2 ", "a:6x1 "});
    CHECK(plans.front().plan.devices().text() == "a:6");
    CHECK(plans.front().estimate.throughput == 12.0);
  }

  TEST_CASE("types are mixed only if that is allowed") {
    PlanQuery query{.max_p = 3,
                    .capabilities = {{{"a"}, 2.0}, {{"b"}, 1.0}},
                    .available = devices("a:1+b:1"),
                    .mix_types = true};
    CHECK(texts(all_plans(query)) == std::vector<std::string>{"a:1x2 b:1x1 ", "a:1x3 ", "b:1x3 "});
    CHECK(best_plan(query)->plan.devices().text() == "a:1+b:1");
    query.mix_types = false;
    CHECK(texts(all_plans(query)) == std::vector<std::string>{"a:1x3 ", "b:1x3 "});
    CHECK(best_plan(query)->plan.devices().text() == "a:1");
  }

  TEST_CASE("a device that would delay the others is left out of the best plan") {
    const PlanQuery query{.max_p = 4,
                          .capabilities = {{{"a"}, 10.0}, {{"b"}, 1.0}},
                          .available = devices("a:2+b:2"),
                          .mix_types = true};
    CHECK(best_plan(query)->plan.devices().text() == "a:2");
  }

  TEST_CASE(
      "of equally fast plans with equal numbers of devices the one with slower devices comes "
      "first") {
    const PlanQuery query{.max_p = 2,
                          .capabilities = {{{"a"}, 1.5}, {{"b"}, 1.0}},
                          .available = devices("a:2+b:2"),
                          .mix_types = true};
    std::vector<std::string> order;
    for (const RankedPlan& p : all_plans(query)) order.push_back(p.plan.devices().text());
    // Plans b:2 and a:1+b:1 both need one second per step, and a:1+b:1 wastes half a local step of
    // it.
    CHECK(order == std::vector<std::string>{"a:2", "b:2", "a:1+b:1", "a:1", "b:1"});
  }

  TEST_CASE("with communication fewer devices may be the best plan") {
    const PlanQuery query{.max_p = 8,
                          .capabilities = {{{"a"}, 20.0}},
                          .available = devices("a:8"),
                          .sync = SyncCurve({{8, 0.7}})};
    const std::vector<RankedPlan> plans = all_plans(query);
    std::vector<std::string> order;
    for (const RankedPlan& p : plans) order.push_back(p.plan.devices().text());
    REQUIRE(order.size() == 5);
    CHECK(order[0] == "a:2");
    CHECK(order[1] == "a:3");
    CHECK(order[4] == "a:8");
    CHECK(plans[0].estimate.f_seconds_per_step == doctest::Approx(0.3));
    CHECK(best_plan(query)->plan.devices().text() == "a:2");
    CHECK(*least_seconds(query) == doctest::Approx(0.3));
  }

  TEST_CASE("without a device of known capability there is no plan") {
    CHECK(all_plans({.max_p = 4, .capabilities = {{{"a"}, 1.0}}}).empty());
    CHECK_FALSE(best_plan({.max_p = 4, .capabilities = {}, .available = devices("a:2")}));
  }

  TEST_CASE("enumeration equals brute force on small cases") {
    std::mt19937_64 random(test::seed("plans"));
    for (int round = 0; round < 1000; ++round) {
      const PlanQuery query = random_query(random);
      CAPTURE(round);
      CAPTURE(query.available.text());
      CAPTURE(query.max_p);
      CHECK(texts(all_plans(query)) == texts(BruteForce(query).plans()));
    }
  }

  TEST_CASE("plans are ranked by throughput, then fewer devices, then less waste") {
    std::mt19937_64 random(test::seed("plan ranks"));
    for (int round = 0; round < 500; ++round) {
      const PlanQuery query = random_query(random);
      const std::vector<RankedPlan> plans = all_plans(query);
      for (std::size_t i = 1; i < plans.size(); ++i) {
        const auto key = [](const RankedPlan& p) {
          // It is a sum of rounded terms, so equal waste need not have equal bits.
          const double waste = std::round(p.estimate.waste / p.estimate.throughput * 1e6);
          return std::tuple(-p.estimate.throughput, p.plan.devices().total(), waste);
        };
        CHECK(key(plans[i - 1]) <= key(plans[i]));
      }
    }
  }

  TEST_CASE("the best plan is the first of all plans") {
    std::mt19937_64 random(test::seed("best plan"));
    for (int round = 0; round < 2000; ++round) {
      const PlanQuery query = random_query(random);
      const std::vector<RankedPlan> plans = all_plans(query);
      const std::optional<RankedPlan> best = best_plan(query);
      REQUIRE(best.has_value() == !plans.empty());
      if (best) CHECK(*best == plans.front());
    }
  }

  // Of the plans ordered by their number of devices, each one that is faster than all before it.
  std::vector<RankedPlan> frontier_of(const std::vector<RankedPlan>& plans) {
    std::map<std::uint32_t, RankedPlan> by_devices;
    for (const RankedPlan& p : plans) by_devices.try_emplace(p.plan.devices().total(), p);
    std::vector<RankedPlan> frontier;
    for (const auto& [devices, plan] : by_devices)
      if (frontier.empty() || plan.estimate.throughput > frontier.front().estimate.throughput)
        frontier.insert(frontier.begin(), plan);
    return frontier;
  }

  TEST_CASE("when there are too many plans, the list is the frontier of all plans") {
    std::mt19937_64 random(test::seed("frontier"));
    for (int round = 0; round < 1000; ++round) {
      PlanQuery query = random_query(random);
      query.mix_types = true;
      query.sync = {};
      const std::vector<RankedPlan> expected = frontier_of(all_plans(query));
      CAPTURE(query.available.text());
      CAPTURE(query.max_p);
      const PlanList list = list_plans(query, {.plans = 1000, .steps = 0});
      CHECK(list.plans == expected);
      CHECK(list.complete == query.available.empty());
    }
  }

  TEST_CASE("a list ends at its limit and reports that it is cut") {
    const PlanQuery query{
        .max_p = 64, .capabilities = {{{"a"}, 1.0}}, .available = devices("a:64")};
    const std::vector<RankedPlan> plans = all_plans(query);
    REQUIRE(plans.size() > 10);
    const PlanList list = list_plans(query, {.plans = 10});
    CHECK(list.plans == std::vector<RankedPlan>(plans.begin(), plans.begin() + 10));
    CHECK_FALSE(list.complete);
    CHECK(list_plans(query).complete);
  }

  // There are more types than brute force can do. Equal speeds, equal places and scarce devices
  // occur together.
  PlanQuery query_of_many_types(std::mt19937_64 & random) {
    PlanQuery query;
    query.max_p = static_cast<std::uint32_t>(1 + random() % 24);
    query.mix_types = random() % 8 != 0;
    query.max_devices = random() % 3 == 0 ? static_cast<std::uint32_t>(1 + random() % 8) : 0;
    const std::size_t types = 1 + random() % 6;
    const double unit = random() % 2 == 0 ? 1.0 : 0.37;
    for (std::size_t i = 0; i < types; ++i) {
      const DeviceType type{std::string(1, static_cast<char>('a' + random() % 8))};
      query.capabilities[type] = static_cast<double>(1 + random() % 6) * unit;
      query.available.add(type, static_cast<std::uint32_t>(random() % 4));
    }
    return query;
  }

  TEST_CASE("the best plan of many types is the first of all plans") {
    std::mt19937_64 random(test::seed("many types"));
    for (int round = 0; round < 1000; ++round) {
      const PlanQuery query = query_of_many_types(random);
      CAPTURE(round);
      CAPTURE(query.available.text());
      CAPTURE(query.max_p);
      const std::vector<RankedPlan> plans = all_plans(query);
      const std::optional<RankedPlan> best = best_plan(query);
      REQUIRE(best.has_value() == !plans.empty());
      if (!best) continue;
      CHECK(*best == plans.front());
      CHECK(least_seconds(query) == best->estimate.f_seconds_per_step);
    }
  }

  TEST_CASE("eight types, 1,024 ESTs and 10,000 devices") {
    std::mt19937_64 random(test::seed("large"));
    for (int round = 0; round < 20; ++round) {
      PlanQuery query{.max_p = 1024, .mix_types = true};
      const bool scarce = round % 2 == 0;
      for (char name = 'a'; name < 'i'; ++name) {
        const DeviceType type{std::string(1, name)};
        query.capabilities[type] = static_cast<double>(1 + random() % 10'000) / 97;
        query.available.add(type, scarce ? 1 + random() % 60 : 1250);
      }
      const std::optional<RankedPlan> best = best_plan(query);
      REQUIRE(best);
      CHECK(least_seconds(query) == best->estimate.f_seconds_per_step);
      CHECK(query.available.contains(best->plan.devices()));
      // Every device counts: if one of them is missing, a step takes longer.
      for (const PlanPart& part : best->plan.parts) {
        PlanQuery fewer = query;
        fewer.available = best->plan.devices();
        CHECK(best_plan(fewer)->plan == best->plan);
        fewer.available.remove(part.type, 1);
        CHECK(least_seconds(fewer).value_or(1e300) > best->estimate.f_seconds_per_step);
      }
      const PlanList list = list_plans(query);
      CHECK_FALSE(list.complete);
      CHECK(list.plans.front() == *best);
      for (std::size_t i = 1; i < list.plans.size(); ++i) {
        CHECK(list.plans[i].estimate.throughput < list.plans[i - 1].estimate.throughput);
        CHECK(list.plans[i].plan.devices().total() < list.plans[i - 1].plan.devices().total());
      }
    }
  }

  TEST_CASE("three types and 64 ESTs are enumerated exactly, each plan needing all its devices") {
    const PlanQuery query{.max_p = 64,
                          .capabilities = {{{"a"}, 7.3}, {{"b"}, 3.1}, {{"c"}, 1.0}},
                          .available = devices("a:64+b:64+c:64"),
                          .mix_types = true};
    const std::vector<RankedPlan> plans = all_plans(query);
    CHECK(plans.size() > 1000);
    std::mt19937_64 random(test::seed("64 ESTs"));
    for (int round = 0; round < 200; ++round) {
      const RankedPlan& plan = plans[random() % plans.size()];
      for (const PlanPart& part : plan.plan.parts) {
        PlanQuery fewer = query;
        fewer.available = plan.plan.devices();
        CHECK(best_plan(fewer)->plan == plan.plan);
        fewer.available.remove(part.type, 1);
        const std::optional<RankedPlan> best = best_plan(fewer);
        if (best) CHECK(best->estimate.throughput < plan.estimate.throughput);
      }
    }
  }
}

}  // namespace es::scheduler
