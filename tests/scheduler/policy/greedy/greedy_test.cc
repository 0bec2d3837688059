#include "scheduler/policy/greedy/greedy.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/scheduler/policy/greedy/plain_greedy.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

JobView job(const char* id, DeviceSet held, std::uint32_t min_devices,
            std::vector<Proposal> proposals = {}) {
  JobView view;
  view.id = id;
  view.held = std::move(held);
  view.min_devices = min_devices;
  view.max_devices = 8;
  view.types = {{"a"}, {"b"}};
  view.mix_types = true;
  view.proposals = std::move(proposals);
  return view;
}

JobView pinned(const char* id, DeviceSet held, DeviceSet wanted) {
  JobView view = job(id, std::move(held), 1);
  view.pinned = std::move(wanted);
  return view;
}

using Changes = std::vector<std::pair<JobId, DeviceSet>>;

struct ByJob {
  Changes grants;
  Changes shrinks;
};

// The decisions by job, after a check that they keep the rules of every policy. The jobs of the
// view are in submit order.
ByJob decide(ClusterView view) {
  for (std::size_t j = 0; j < view.jobs.size(); ++j) view.jobs[j].number = j;
  const Decisions decisions = GreedyPolicy().decide(view);
  const Status status = check_decisions(view, decisions);
  CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
  ByJob named;
  for (const Change& c : decisions.grants)
    named.grants.emplace_back(view.jobs[c.slot].id, c.devices);
  for (const Change& c : decisions.shrinks)
    named.shrinks.emplace_back(view.jobs[c.slot].id, c.devices);
  return named;
}

}  // namespace

TEST_SUITE("scheduler/policy/greedy") {
  TEST_CASE("a free device goes to the job with the largest gain per device") {
    const ByJob d = decide({devices("a:1"),
                            {},
                            {job("slow", devices("a:1"), 1, {{{"a"}, 1, 1.2}}),
                             job("fast", devices("a:1"), 1, {{{"a"}, 1, 1.9}})}});
    CHECK(d.grants == Changes{{"fast", devices("a:1")}});
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("gain counts per device: two devices with less gain each come second") {
    const ByJob d = decide({devices("a:2"),
                            {},
                            {job("two", devices("a:1"), 1, {{{"a"}, 2, 2.0}}),
                             job("one", devices("a:1"), 1, {{{"a"}, 1, 1.6}})}});
    CHECK(d.grants == Changes{{"one", devices("a:1")}});
  }

  TEST_CASE("equal gains go to more devices, then to the job submitted first") {
    const JobView linear = job("x", devices("a:1"), 1, {{{"a"}, 1, 2.0}, {{"a"}, 3, 4.0}});
    JobView second = linear;
    second.id = "y";
    CHECK(decide({devices("a:4"), {}, {linear, second}}).grants ==
          Changes{{"x", devices("a:3")}, {"y", devices("a:1")}});
  }

  TEST_CASE("one proposal of a job is granted at a time, because the others become stale") {
    const JobView greedy = job("x", devices("a:1"), 1, {{{"a"}, 1, 2.0}, {{"b"}, 1, 1.5}});
    CHECK(decide({devices("a:1+b:1"), {}, {greedy}}).grants == Changes{{"x", devices("a:1")}});
  }

  TEST_CASE("proposals without a gain are not granted") {
    CHECK(decide({devices("a:4"), {}, {job("x", devices("a:1"), 1, {{{"a"}, 1, 1.0}})}})
              .grants.empty());
  }

  TEST_CASE("a minimum is served before any extra, whatever the extra would gain") {
    const ByJob d =
        decide({devices("a:2"),
                {},
                {job("greedy", devices("a:1"), 1, {{{"a"}, 1, 2.0}}), job("new", {}, 2)}});
    CHECK(d.grants == Changes{{"new", devices("a:2")}});
  }

  TEST_CASE("minima are served in submit order") {
    const ByJob d = decide({devices("a:2"), {}, {job("x", {}, 2), job("y", {}, 1)}});
    CHECK(d.grants == Changes{{"x", devices("a:2")}});
  }

  TEST_CASE("a minimum prefers the types with the largest gain in its proposals") {
    const JobView fast_b = job("x", {}, 1, {{{"a"}, 1, 0.3}, {{"b"}, 1, 1.0}});
    CHECK(decide({devices("a:1+b:1"), {}, {fast_b}}).grants == Changes{{"x", devices("b:1")}});
  }

  TEST_CASE("a minimum may mix types only if the job allows it") {
    JobView wide = job("x", {}, 3);
    CHECK(decide({devices("a:2+b:2"), {}, {wide}}).grants == Changes{{"x", devices("a:2+b:1")}});
    wide.mix_types = false;
    CHECK(decide({devices("a:2+b:2"), {}, {wide}}).grants.empty());
    CHECK(decide({devices("a:2+b:3"), {}, {wide}}).grants == Changes{{"x", devices("b:3")}});
  }

  TEST_CASE("extra devices are called back for a waiting minimum, from the job with most of them") {
    const ByJob d = decide(
        {{},
         {},
         {job("big", devices("a:4"), 1), job("small", devices("a:2"), 1), job("new", {}, 1)}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks == Changes{{"big", devices("a:1")}});
  }

  TEST_CASE("among equal jobs the one that was submitted last gives a device back") {
    const ByJob d = decide(
        {{}, {}, {job("x", devices("a:2"), 1), job("y", devices("a:2"), 1), job("new", {}, 1)}});
    CHECK(d.shrinks == Changes{{"y", devices("a:1")}});
  }

  TEST_CASE("devices that are returning already are waited for, and no others are called back") {
    const ByJob d =
        decide({{}, devices("a:1"), {job("big", devices("a:4"), 1), job("new", {}, 1)}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("a returning device is waited for by one job only") {
    const ByJob d =
        decide({{},
                devices("a:1"),
                {job("big", devices("a:4"), 1), job("new", {}, 1), job("newer", {}, 1)}});
    CHECK(d.shrinks == Changes{{"big", devices("a:1")}});
  }

  TEST_CASE("a free device that a waiting job will need is not given to another job") {
    const ByJob d = decide({devices("a:1"),
                            devices("a:1"),
                            {job("x", devices("b:1"), 1, {{{"a"}, 1, 2.0}}), job("new", {}, 2)}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("a need that cannot be met now blocks no job behind it") {
    const ByJob d = decide({devices("a:1"),
                            {},
                            {pinned("stuck", {}, devices("b:2")),
                             pinned("holder", devices("b:2"), devices("b:2")), job("new", {}, 1)}});
    CHECK(d.grants == Changes{{"new", devices("a:1")}});
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("a pinned demand is met exactly or not at all") {
    CHECK(decide({devices("a:3"), {}, {pinned("x", {}, devices("a:4"))}}).grants.empty());
    CHECK(decide({devices("a:5"), {}, {pinned("x", {}, devices("a:4"))}}).grants ==
          Changes{{"x", devices("a:4")}});
    CHECK(decide({devices("a:5"), {}, {pinned("x", devices("a:1+b:1"), devices("a:4"))}}).grants ==
          Changes{{"x", devices("a:3")}});
  }

  TEST_CASE("a pinned job is given no extras and loses none") {
    JobView fixed = pinned("x", devices("a:3"), devices("a:3"));
    fixed.proposals = {{{"a"}, 1, 2.0}};
    const ByJob d = decide({devices("a:1"), {}, {fixed, job("new", {}, 2)}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("devices that a served pinned job holds beyond its demand are expected back") {
    const ByJob d = decide({{},
                            {},
                            {pinned("x", devices("a:3"), devices("a:2")),
                             job("big", devices("a:4"), 1), job("new", {}, 1)}});
    CHECK(d.grants.empty());
    CHECK(d.shrinks.empty());
  }

  TEST_CASE("an impossible call-back calls no device back, and leaves the extra to others") {
    // One extra device, of either type; the demand needs one of each.
    ClusterView view{
        {}, {}, {job("x", devices("a:1+b:1"), 1), pinned("new", {}, devices("a:1+b:1"))}};
    CHECK(decide(view).shrinks.empty());
    view.jobs.push_back(job("newer", {}, 1));
    CHECK(decide(view).shrinks == Changes{{"x", devices("a:1")}});
  }

  TEST_CASE("a job without mixing grows only in the type that it has") {
    JobView one_type = job("x", devices("a:1"), 1, {{{"b"}, 1, 2.0}});
    one_type.mix_types = false;
    CHECK(decide({devices("b:2"), {}, {one_type}}).grants.empty());
  }

  TEST_CASE("homogeneous: a job that may mix types does not") {
    JobView wide = job("x", {}, 3);
    const ClusterView view{devices("a:2+b:3"), {}, {wide}};
    const Decisions d = GreedyPolicy(/*homogeneous=*/true).decide(view);
    REQUIRE(d.grants.size() == 1);
    CHECK(d.grants[0].devices == devices("b:3"));
  }

  TEST_CASE("random clusters: the rules hold, the same view gives the same decisions") {
    std::mt19937_64 random(test::seed("greedy"));
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return low + static_cast<std::uint32_t>(random() % (high - low + 1));
    };
    const auto set = [&](std::uint32_t most) {
      DeviceSet s;
      for (const char* type : {"a", "b", "c"}) s.add({type}, draw(0, most));
      return s;
    };
    for (int round = 0; round < 5000; ++round) {
      ClusterView view{set(4), set(2), {}};
      for (std::uint32_t j = 0, jobs = draw(0, 6); j < jobs; ++j) {
        JobView v = job(("j" + std::to_string(j)).c_str(), {}, draw(1, 4));
        v.mix_types = draw(0, 1) == 0;
        v.held = v.mix_types ? set(2) : DeviceSet{};
        if (!v.mix_types) v.held.add({draw(0, 1) == 0 ? "a" : "c"}, draw(0, 5));
        if (draw(0, 3) == 0) v.pinned = set(2);
        for (std::uint32_t p = draw(0, 4); p > 0; --p)
          v.proposals.push_back({{draw(0, 1) == 0 ? "a" : "b"}, draw(1, 4), draw(5, 40) / 10.0});
        view.jobs.push_back(v);
      }
      const ByJob first = decide(view);
      const ByJob again = decide(view);
      CHECK(first.grants == again.grants);
      CHECK(first.shrinks == again.shrinks);
    }
  }

  TEST_CASE("the indexed policy decides the same as the plain rule, over random histories") {
    test::RandomViews random(test::seed("greedy kept"));
    std::size_t grants = 0, shrinks = 0;
    for (int walk = 0; walk < 200; ++walk) {
      const bool homogeneous = random.one_in(4);
      GreedyPolicy policy(homogeneous);
      ClusterView view = random.view(walk % 2 == 0 ? 14 : 60);
      for (int step = 0; step < 60; ++step) {
        const Decisions kept = policy.decide(view);
        const Decisions plain = test::plain_greedy_decisions(view, homogeneous);
        CHECK(kept.grants == plain.grants);
        CHECK(kept.shrinks == plain.shrinks);
        grants += kept.grants.size();
        shrinks += kept.shrinks.size();
        random.advance(view, kept);
      }
    }
    CHECK(grants > 1000);
    CHECK(shrinks > 100);
  }
}

}  // namespace es::scheduler
