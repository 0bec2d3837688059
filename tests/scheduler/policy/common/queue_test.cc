// Trees of queues: which are allowed, what a queue is entitled to, and what it may take.
#include "scheduler/policy/common/queue.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "scheduler/policy/common/queue_states.h"
#include "scheduler/policy/common/queue_tree.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using Draw = std::mt19937_64;

std::uint32_t draw(Draw& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (high - low + 1));
}

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

const std::vector<DeviceType> kTypes{{"a"}, {"b"}};

// A random tree. The guarantees of children are within that of their parent.
std::vector<Queue> random_tree(Draw& random) {
  std::vector<Queue> queues;
  std::vector<Counts> left;  // by queue: what its children may still be guaranteed
  const std::uint32_t size = draw(random, 1, 12);
  for (std::uint32_t i = 0; i < size; ++i) {
    Queue queue{"q" + std::to_string(i), {}};
    Counts most{20, 20};
    std::uint32_t parent = size;
    if (i > 0 && draw(random, 0, 2) > 0) {
      parent = draw(random, 0, i - 1);
      queue.parent = queues[parent].name;
      most = left[parent];
    }
    Counts guarantee;
    for (std::size_t t = 0; t < kTypes.size(); ++t) {
      guarantee.push_back(draw(random, 0, most[t]));
      if (guarantee[t] > 0) queue.guarantee.add(kTypes[t], guarantee[t]);
      if (parent < size) left[parent][t] -= guarantee[t];
      if (draw(random, 0, 2) == 0) queue.borrow[kTypes[t]] = draw(random, 0, 6);
    }
    queue.weight = draw(random, 0, 3);
    queue.tier = draw(random, 0, 1);
    left.push_back(guarantee);
    queues.push_back(std::move(queue));
  }
  return *completed_queues(std::move(queues));
}

std::vector<std::uint32_t> leaves_of(const std::vector<Queue>& queues) {
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t i = 0; i < queues.size(); ++i)
    if (is_leaf(queues, queues[i].name)) leaves.push_back(i);
  return leaves;
}

std::string error_of(std::vector<Queue> queues) {
  const auto completed = completed_queues(std::move(queues));
  return completed ? "" : completed.error().message;
}

}  // namespace

TEST_SUITE("scheduler/policy/queue") {
  TEST_CASE("a tree that is not possible is refused, with the queue and the value") {
    CHECK(error_of({{"a", {}}, {"a", {}}}) ==
          "queue \"a\": there are two queues of this name; names are unique in the whole tree");
    CHECK(error_of({{"x y", {}}}).find("name: allowed are 1 to 64 letters") != std::string::npos);
    CHECK(error_of({{.name = "a", .guarantee = {}, .parent = "b"}}) ==
          "queue \"a\": parent = \"b\": there is no such queue");
    CHECK(error_of({{.name = "a", .guarantee = {}, .parent = "b"},
                    {.name = "b", .guarantee = {}, .parent = "a"}})
              .find("it is below itself") != std::string::npos);
    CHECK(error_of({{.name = "a", .guarantee = {}, .weight = -1}}) ==
          "queue \"a\": weight = -1; allowed: 0 to 1000000");
    CHECK(error_of({{"a", devices("a:3")},
                    {.name = "b", .guarantee = devices("a:2"), .parent = "a"},
                    {.name = "c", .guarantee = devices("a:2"), .parent = "a"}}) ==
          "queue \"a\": guarantee = a:3: the queues below it have a:4 together, which is more");
    CHECK(error_of({{.name = "a", .guarantee = {}, .tenants = {"vision"}},
                    {.name = "b", .guarantee = {}, .parent = "a"}})
              .find("tenants: allowed only in a queue without others below it") !=
          std::string::npos);
  }

  TEST_CASE("an inner queue without a guarantee has that of its children, at any depth") {
    const auto queues =
        completed_queues({{"top", {}},
                          {.name = "middle", .guarantee = {}, .parent = "top"},
                          {.name = "x", .guarantee = devices("a:2"), .parent = "middle"},
                          {.name = "y", .guarantee = devices("a:1+b:3"), .parent = "middle"}});
    REQUIRE(queues.ok());
    CHECK((*queues)[0].guarantee == devices("a:3+b:3"));
    CHECK((*queues)[1].guarantee == devices("a:3+b:3"));
  }

  TEST_CASE("a job is in the queue that it names, in that of its tenant, or in the default one") {
    const std::vector<Queue> queues =
        *completed_queues({{"top", {}},
                           {.name = "vision", .guarantee = {}, .parent = "top"},
                           {.name = "own", .guarantee = {}, .tenants = {"speech"}},
                           {"default", {}}});
    CHECK(queue_of_job(queues, "vision", "speech") == "vision");
    CHECK(queue_of_job(queues, "", "vision") == "vision");
    CHECK(queue_of_job(queues, "", "speech") == "default");
    // An inner queue has no jobs of its own, and `own` is for another tenant.
    CHECK(queue_of_job(queues, "", "top") == "default");
    CHECK(queue_of_job(queues, "own", "vision") == "vision");
    CHECK(queue_of_job({}, "x", "y").empty());
    CHECK(check_queue_of_job(queues, "own", "speech").ok());
    const auto error = [&](const char* named, const char* tenant) {
      return check_queue_of_job(queues, named, tenant).error();
    };
    CHECK(error("own", "vision").kind == ErrorKind::kRefused);
    CHECK(error("own", "vision").message ==
          "resources.queue = \"own\": only jobs of these tenants may be in it: speech");
    CHECK(error("top", "").message ==
          "resources.queue = \"top\": it has queues below it; allowed: vision, own, default");
    CHECK(error("nlp", "").kind == ErrorKind::kUsage);
    CHECK(check_queue_of_job({}, "x", "").ok());  // a head without queues ignores the name
  }

  TEST_CASE("what no guarantee needs is shared in the ratio of the weights") {
    const std::vector<Queue> queues =
        *completed_queues({{.name = "x", .guarantee = devices("a:2"), .weight = 3},
                           {.name = "y", .guarantee = {}, .weight = 1},
                           {.name = "z", .guarantee = devices("a:4"), .weight = 0}});
    const QueueTree tree(queues, {{"a"}});
    const auto entitled = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
      std::vector<std::uint32_t> result;
      for (const Counts& c : tree.entitled({{x}, {y}, {z}, {0}}, {14})) result.push_back(c[0]);
      result.pop_back();
      return result;
    };
    using Shares = std::vector<std::uint32_t>;
    // 14 devices: 2 and 4 are guaranteed, and the others are shared 3 to 1.
    CHECK(entitled(99, 99, 99) == Shares{2 + 6, 2, 4});
    // z wants less than its guarantee.
    CHECK(entitled(99, 99, 0) == Shares{2 + 9, 3, 0});
    // x is satisfied, and y gets the rest. z has no weight.
    CHECK(entitled(3, 99, 99) == Shares{3, 7, 4});
    CHECK(entitled(0, 0, 99) == Shares{0, 0, 4});
  }

  TEST_CASE("a higher tier gets what it wants of the devices that no guarantee needs") {
    const std::vector<Queue> queues =
        *completed_queues({{.name = "x", .guarantee = devices("a:2"), .weight = 3},
                           {.name = "y", .guarantee = {}, .weight = 1, .tier = 2},
                           {.name = "z", .guarantee = devices("a:1"), .weight = 1, .tier = 2}});
    const QueueTree tree(queues, {{"a"}});
    const auto entitled = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
      std::vector<std::uint32_t> result;
      for (const Counts& c : tree.entitled({{x}, {y}, {z}, {0}}, {11})) result.push_back(c[0]);
      result.pop_back();
      return result;
    };
    using Shares = std::vector<std::uint32_t>;
    // y and z share all that is not guaranteed, and x keeps its guarantee.
    CHECK(entitled(99, 99, 99) == Shares{2, 4, 5});
    CHECK(entitled(99, 3, 0) == Shares{8, 3, 0});
    CHECK(entitled(1, 99, 0) == Shares{1, 10, 0});
    CHECK(entitled(0, 0, 99) == Shares{0, 0, 11});
  }

  TEST_CASE("a reservation raises the guarantee of a queue and of those above it") {
    std::vector<Queue> queues =
        *completed_queues({{.name = "top", .guarantee = devices("a:3")},
                           {.name = "x", .guarantee = devices("a:1"), .parent = "top"},
                           {.name = "y", .guarantee = devices("a:1"), .parent = "top"}});
    add_guarantee(queues, "x", {"b"}, 2);
    add_guarantee(queues, "x", {"a"}, 1);
    CHECK(queues[0].guarantee == devices("a:4+b:2"));
    CHECK(queues[1].guarantee == devices("a:2+b:2"));
    CHECK(queues[2].guarantee == devices("a:1"));
    CHECK(completed_queues(queues).ok());
  }

  TEST_CASE("random trees: guarantees are kept, and nothing is promised twice") {
    Draw random(test::seed("queue trees"));
    for (int round = 0; round < 2000; ++round) {
      const std::vector<Queue> queues = random_tree(random);
      const QueueTree tree(queues, kTypes);
      std::vector<Counts> wanted(tree.size(), Counts(2, 0));
      for (const std::uint32_t leaf : leaves_of(queues))
        for (std::uint32_t& w : wanted[leaf]) w = draw(random, 0, 30);
      const Counts supply{draw(random, 0, 60), draw(random, 0, 60)};
      const std::vector<Counts> entitled = tree.entitled(wanted, supply);
      REQUIRE(entitled.size() == tree.size());
      for (std::size_t t = 0; t < 2; ++t) {
        std::uint32_t top = 0, top_guaranteed = 0;
        for (std::uint32_t i = 0; i < queues.size(); ++i) {
          const std::uint32_t has = entitled[i][t];
          CHECK(has <= tree.limit(i)[t]);
          if (is_leaf(queues, queues[i].name)) {
            CHECK(has <= wanted[i][t]);
            CHECK(has >= std::min(tree.guarantee(i)[t], wanted[i][t]));
          } else {
            std::uint32_t below = 0, guaranteed_below = 0;
            for (std::uint32_t c = 0; c < queues.size(); ++c)
              if (tree.parent(c) == static_cast<std::int32_t>(i)) {
                below += entitled[c][t];
                guaranteed_below += tree.guarantee(c)[t];
              }
            CHECK(below <= has);
            CHECK(guaranteed_below <= tree.guarantee(i)[t]);
          }
          if (tree.parent(i) == QueueTree::kTop) {
            top += has;
            top_guaranteed += std::min(has, tree.guarantee(i)[t]);
          }
        }
        CHECK(top <= std::max(supply[t], top_guaranteed));
      }
    }
  }

  TEST_CASE("random trees: with weights, devices are left only if no queue may have more") {
    Draw random(test::seed("queue trees with weights"));
    for (int round = 0; round < 1000; ++round) {
      std::vector<Queue> queues = random_tree(random);
      for (Queue& queue : queues) queue.weight = draw(random, 1, 5);
      const QueueTree tree(queues, kTypes);
      std::vector<Counts> wanted(tree.size(), Counts(2, 0));
      for (const std::uint32_t leaf : leaves_of(queues))
        for (std::uint32_t& w : wanted[leaf]) w = draw(random, 0, 30);
      const Counts supply{draw(random, 0, 60), draw(random, 0, 60)};
      const std::vector<Counts> entitled = tree.entitled(wanted, supply);
      for (std::size_t t = 0; t < 2; ++t) {
        std::uint32_t top = 0;
        for (std::uint32_t i = 0; i < queues.size(); ++i)
          if (tree.parent(i) == QueueTree::kTop) top += entitled[i][t];
        for (const std::uint32_t leaf : leaves_of(queues)) {
          if (entitled[leaf][t] >= wanted[leaf][t]) continue;
          // It wants more: the cluster, or a limit on its way to the top, is used up.
          bool is_full = top >= supply[t];
          for (std::int32_t at = static_cast<std::int32_t>(leaf); at != QueueTree::kTop;
               at = tree.parent(static_cast<std::uint32_t>(at))) {
            const auto i = static_cast<std::uint32_t>(at);
            is_full = is_full || entitled[i][t] >= tree.limit(i)[t];
          }
          CHECK(is_full);
        }
      }
    }
  }

  TEST_CASE("random use: what may be taken never exceeds a limit, and one device more would") {
    Draw random(test::seed("queue use"));
    for (int round = 0; round < 500; ++round) {
      const std::vector<Queue> queues = random_tree(random);
      const QueueTree tree(queues, kTypes);
      QueueUse use(tree);
      std::vector<std::pair<std::uint32_t, Counts>> taken;
      const auto leaves = leaves_of(queues);
      for (int step = 0; step < 60; ++step) {
        const std::uint32_t leaf =
            leaves[draw(random, 0, static_cast<std::uint32_t>(leaves.size()) - 1)];
        if (!taken.empty() && draw(random, 0, 2) == 0) {
          use.remove(taken.back().first, taken.back().second);
          taken.pop_back();
          continue;
        }
        Counts counts(2, 0);
        for (std::size_t t = 0; t < 2; ++t)
          counts[t] = std::min(use.room(leaf, t), draw(random, 0, 9));
        CHECK(use.allows(leaf, counts));
        use.add(leaf, counts);
        taken.emplace_back(leaf, counts);
        for (std::uint32_t i = 0; i < queues.size(); ++i)
          for (std::size_t t = 0; t < 2; ++t) CHECK(use.of(i)[t] <= tree.limit(i)[t]);
        for (std::size_t t = 0; t < 2; ++t) {
          Counts more(2, 0);
          if (use.room(leaf, t) == QueueTree::kNoLimit) continue;
          more[t] = use.room(leaf, t) + 1;
          CHECK_FALSE(use.allows(leaf, more));
        }
      }
      // Everything that was taken can be given back.
      for (const auto& [leaf, counts] : taken) use.remove(leaf, counts);
      for (std::uint32_t i = 0; i < queues.size(); ++i) CHECK(total(use.of(i)) == 0);
    }
  }

  TEST_CASE("the state of a queue counts the jobs and devices below it") {
    ClusterView view;
    view.total = devices("a:8");
    view.queues = *completed_queues(
        {{"top", {}},
         {.name = "x", .guarantee = devices("a:2"), .parent = "top", .borrow = {{{"a"}, 1}}},
         {.name = "y", .guarantee = devices("a:1"), .parent = "top"}});
    for (const char* queue : {"x", "x", "y", ""}) {
      JobView job;
      job.number = view.jobs.size();
      job.id = "j" + std::to_string(job.number);
      job.queue = queue;
      job.max_p = job.max_devices = 4;
      job.types = {{"a"}};
      job.capabilities = {{{"a"}, 1.0}};
      view.jobs.push_back(std::move(job));
    }
    view.jobs[0].held = devices("a:3");
    view.jobs[3].held = devices("a:4");
    view.free = devices("a:1");
    const auto states = queue_states(view);
    REQUIRE(states.size() == 3);
    CHECK(states[0].running == 1);
    CHECK(states[0].waiting == 2);
    REQUIRE(states[0].types.size() == 1);
    CHECK(states[0].types[0].used == 3);
    CHECK(states[0].types[0].guarantee == 3);
    CHECK_FALSE(states[0].types[0].limit.has_value());
    CHECK(states[1].types[0].limit == 3u);
    CHECK(states[1].types[0].entitled == 2);
    CHECK(states[2].types[0].entitled == 1);
    CHECK(states[2].waiting == 1);
  }
}

}  // namespace es::scheduler
