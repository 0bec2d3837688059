#include "actors/agents/core/agent_planner.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::actors {
namespace {

using std::chrono::seconds;
using Indices = std::vector<std::uint32_t>;
using Jobs = std::vector<std::string>;

constexpr AgentLimits kLimits{.min = 2, .max = 6, .idle = seconds(60)};

std::string name_of(std::uint32_t index) {
  return "1_" + std::to_string(index);
}

AgentSeen queued(std::uint32_t index) {
  return {.job = name_of(index), .index = index};
}

AgentSeen running(std::uint32_t index, std::uint32_t in_use, std::uint32_t devices = 1) {
  return {.job = name_of(index),
          .index = index,
          .state = AgentState::kRunning,
          .devices = devices,
          .devices_in_use = in_use};
}

AgentsSeen seen(std::vector<AgentSeen> agents, std::uint32_t wanted) {
  AgentsSeen all{.agents = std::move(agents), .devices_wanted = {}};
  if (wanted > 0) all.devices_wanted["job"] = wanted;
  return all;
}

TEST_SUITE("actors/agents/core/agent_planner") {
  TEST_CASE("the smallest number of agents is asked for at once, and again if one is lost") {
    AgentPlanner planner(kLimits);
    CHECK(planner.decide(seen({}, 0), seconds(0)) == AgentOrders{.ask = {0, 1}});
    CHECK(planner.decide(seen({queued(0), queued(1)}, 0), seconds(1)) == AgentOrders{});
    CHECK(planner.decide(seen({running(0, 0), running(1, 0)}, 0), seconds(2)) == AgentOrders{});
    CHECK(planner.decide(seen({running(1, 0)}, 0), seconds(3)) == AgentOrders{.ask = {0}});
  }

  TEST_CASE("agents are asked for as long as jobs could use their devices, up to the limit") {
    AgentPlanner planner(kLimits);
    const auto two = {running(0, 1), running(1, 1)};
    CHECK(planner.decide(seen(two, 2), seconds(0)) == AgentOrders{});
    CHECK(planner.decide(seen(two, 4), seconds(1)) == AgentOrders{.ask = {2, 3}});
    CHECK(planner.decide(seen(two, 100), seconds(2)) == AgentOrders{.ask = {2, 3, 4, 5}});
  }

  TEST_CASE("claims make the cluster grow and keep as many devices, whoever uses them") {
    AgentPlanner planner(kLimits);
    AgentsSeen all = seen({running(0, 0, 2), running(1, 1, 2)}, 1);
    all.devices_wanted[claim_key("web")] = 5;
    all.claimed = 5;
    CHECK(planner.decide(all, seconds(0)) == AgentOrders{.ask = {2}});
    all.agents.push_back(running(2, 0, 2));
    all.agents.push_back(running(3, 0, 2));
    CHECK(planner.decide(all, seconds(1)) == AgentOrders{});
    // The claim has both devices of the first, one of the second and both of the third.
    CHECK(planner.decide(all, seconds(100)) == AgentOrders{.give_back = {name_of(3)}});
  }

  TEST_CASE("agents that wait for others which come slowly are kept") {
    AgentPlanner planner(kLimits);
    const auto two = {running(0, 0), running(1, 0)};
    CHECK(planner.decide(seen(two, 4), seconds(0)) == AgentOrders{.ask = {2, 3}});
    // One starts at once, and the other one after minutes.
    const auto three = {running(0, 0), running(1, 0), running(2, 0), queued(3)};
    for (int now = 1; now < 1000; now += 30)
      CHECK(planner.decide(seen(three, 4), seconds(now)) == AgentOrders{});
    const auto four = {running(0, 0), running(1, 0), running(2, 0), running(3, 0)};
    CHECK(planner.decide(seen(four, 4), seconds(1000)) == AgentOrders{});
    CHECK(planner.decide(seen(four, 4), seconds(1020)) == AgentOrders{});
    // Together they do not help the job either.
    CHECK(planner.decide(seen(four, 4), seconds(1080)) ==
          AgentOrders{.give_back = {name_of(3), name_of(2)}});
    CHECK(planner.decide(seen(two, 4), seconds(1081)) == AgentOrders{});
    // What no job wants is given back, although another one was asked for.
    const auto all = {running(0, 1), running(1, 1), running(2, 0), queued(3)};
    AgentPlanner other(kLimits);
    other.decide(seen(all, 4), seconds(0));
    CHECK(other.decide(seen(all, 2), seconds(1)) == AgentOrders{.cancel = {name_of(3)}});
    CHECK(other.decide(seen({running(0, 1), running(1, 1), running(2, 0)}, 2), seconds(61)) ==
          AgentOrders{.give_back = {name_of(2)}});
  }

  TEST_CASE("an agent with several devices counts as several") {
    AgentPlanner planner(kLimits);
    const auto two = {running(0, 4, 4), running(1, 4, 4)};
    CHECK(planner.decide(seen(two, 8), seconds(0)) == AgentOrders{});
    CHECK(planner.decide(seen(two, 9), seconds(1)) == AgentOrders{.ask = {2}});
  }

  TEST_CASE("an agent is given back only after it has been idle, and never below the minimum") {
    AgentPlanner planner(kLimits);
    const auto one_idle = {running(0, 1), running(1, 1), running(2, 0)};
    CHECK(planner.decide(seen(one_idle, 2), seconds(0)) == AgentOrders{});
    CHECK(planner.decide(seen(one_idle, 2), seconds(59)) == AgentOrders{});
    CHECK(planner.decide(seen(one_idle, 2), seconds(60)) == AgentOrders{.give_back = {name_of(2)}});
    // It hands over and is not told again.
    CHECK(planner.decide(seen(one_idle, 2), seconds(61)) == AgentOrders{});
    const auto all_idle = {running(0, 0), running(1, 0)};
    CHECK(planner.decide(seen(all_idle, 0), seconds(70)) == AgentOrders{});
    CHECK(planner.decide(seen(all_idle, 0), seconds(1000)) == AgentOrders{});
  }

  TEST_CASE("an agent that is used again meanwhile stays") {
    AgentPlanner planner(kLimits);
    const auto idle = {running(0, 1), running(1, 1), running(2, 0)};
    const auto busy = {running(0, 1), running(1, 1), running(2, 1)};
    planner.decide(seen(idle, 2), seconds(0));
    CHECK(planner.decide(seen(busy, 3), seconds(59)) == AgentOrders{});
    CHECK(planner.decide(seen(idle, 2), seconds(70)) == AgentOrders{});
    CHECK(planner.decide(seen(idle, 2), seconds(130)) == AgentOrders{.give_back = {name_of(2)}});
  }

  TEST_CASE("agents that Slurm has not started are given up first, and at once") {
    AgentPlanner planner(kLimits);
    const auto agents = {running(0, 1), running(1, 1), queued(2), queued(3)};
    CHECK(planner.decide(seen(agents, 3), seconds(0)) == AgentOrders{.cancel = {name_of(3)}});
  }

  TEST_CASE("devices that no job takes are given back and not asked for again") {
    AgentPlanner planner(kLimits);
    const auto agents = {running(0, 1), running(1, 1), running(2, 1), running(3, 0)};
    planner.decide(seen(agents, 6), seconds(0));
    CHECK(planner.decide(seen(agents, 6), seconds(60)).give_back == Jobs{name_of(3)});
    const auto three = {running(0, 1), running(1, 1), running(2, 1)};
    CHECK(planner.decide(seen(three, 6), seconds(61)) == AgentOrders{});
    CHECK(planner.decide(seen(three, 5), seconds(62)) == AgentOrders{});
    // One of those that are left is lost.
    const auto two = {running(0, 1), running(1, 1)};
    CHECK(planner.decide(seen(two, 5), seconds(63)) == AgentOrders{.ask = {2}});
    // Another job may be able to use them.
    AgentsSeen more = seen(three, 5);
    more.devices_wanted["another"] = 1;
    CHECK(planner.decide(more, seconds(64)) == AgentOrders{.ask = {3, 4, 5}});
  }

  TEST_CASE("an index is used again only when its agent has ended") {
    AgentPlanner planner(kLimits);
    AgentSeen ending = running(0, 0);
    ending.state = AgentState::kEnding;
    CHECK(planner.decide(seen({ending, running(2, 1)}, 1), seconds(0)) == AgentOrders{.ask = {1}});
  }

  TEST_CASE("agents that end before they join are asked for again after longer and longer pauses") {
    AgentPlanner planner({.min = 1, .max = 1, .idle = seconds(60)});
    int now = 0;
    Indices pauses;
    for (int i = 0; i < 9; ++i) {
      REQUIRE(planner.decide(seen({}, 0), seconds(now)).ask == Indices{0});
      planner.decide(seen({running(0, 0, 0)}, 0), seconds(now + 1));
      const int ended = now + 2;
      for (now = ended; planner.decide(seen({}, 0), seconds(now)).ask.empty(); ++now) {
      }
      pauses.push_back(static_cast<std::uint32_t>(now - ended));
    }
    CHECK(pauses == Indices{5, 10, 20, 40, 80, 160, 300, 300, 300});
    CHECK(planner.held_back_until().has_value());
    planner.decide(seen({running(0, 1)}, 1), seconds(now));
    CHECK_FALSE(planner.held_back_until().has_value());
  }

  TEST_CASE("an agent whose node drains is replaced, also when it works and at the minimum") {
    AgentPlanner planner(kLimits);
    AgentSeen leaves = running(0, 1);
    leaves.node_drains = true;
    CHECK(planner.decide(seen({leaves, running(1, 1)}, 2), seconds(0)) ==
          AgentOrders{.ask = {2}, .give_back = {name_of(0)}});
    CHECK(planner.decide(seen({leaves, running(1, 1), queued(2)}, 2), seconds(1)) == AgentOrders{});
  }

  TEST_CASE("an agent that Slurm queues again after a preemption is not one that failed") {
    AgentPlanner planner({.min = 1, .max = 1, .idle = seconds(60)});
    planner.decide(seen({running(0, 1)}, 1), seconds(0));
    CHECK(planner.decide(seen({queued(0)}, 1), seconds(1)) == AgentOrders{});
    CHECK(planner.decide(seen({}, 1), seconds(2)) == AgentOrders{.ask = {0}});
  }

  TEST_CASE("in random histories the number of agents stays within the limits") {
    const auto seed = test::seed("agent_planner");
    std::mt19937_64 random(seed);
    for (int history = 0; history < 200; ++history) {
      const AgentLimits limits{.min = static_cast<std::uint32_t>(random() % 3),
                               .max = static_cast<std::uint32_t>(3 + random() % 5),
                               .idle = seconds(random() % 10)};
      AgentPlanner planner(limits);
      std::map<std::uint32_t, AgentSeen> agents;
      for (int step = 0; step < 100; ++step) {
        AgentsSeen now = seen({}, static_cast<std::uint32_t>(random() % 12));
        for (auto& [index, agent] : agents) {
          if (agent.state == AgentState::kQueued && random() % 2 == 0)
            agent = running(index, static_cast<std::uint32_t>(random() % 2));
          else if (agent.state == AgentState::kRunning)
            agent.devices_in_use = static_cast<std::uint32_t>(random() % 2);
          now.agents.push_back(agent);
        }
        const AgentOrders orders = planner.decide(now, seconds(step * 3));
        for (const std::uint32_t index : orders.ask) {
          REQUIRE_FALSE(agents.contains(index));
          agents[index] = queued(index);
        }
        for (const auto* list : {&orders.cancel, &orders.give_back})
          for (const std::string& job : *list)
            std::erase_if(agents, [&](const auto& agent) { return agent.second.job == job; });
        REQUIRE(agents.size() <= limits.max);
        if (orders.ask.empty()) REQUIRE(agents.size() >= limits.min);
      }
    }
  }
}

}  // namespace
}  // namespace es::actors
