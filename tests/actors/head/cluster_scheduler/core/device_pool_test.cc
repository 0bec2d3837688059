#include "actors/head/cluster_scheduler/core/device_pool.h"

#include <doctest/doctest.h>

namespace es::actors {
namespace {

const DeviceType kA{"a"};

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

std::string text(const std::set<DeviceId>& ids) {
  std::string result;
  for (const DeviceId& id : ids) result += (result.empty() ? "" : " ") + id.text();
  return result;
}

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/device_pool") {
  TEST_CASE("devices of a new node are free, and go through held and returning back to free") {
    DevicePool pool;
    pool.join("n", devices("a:2+b:1"));
    CHECK(pool.free_devices() == devices("a:2+b:1"));
    pool.grant("j", kA, 2);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1");
    pool.retire("j", kA, 1);
    CHECK(text(pool.held("j")) == "n/a:0");
    CHECK(pool.returning_devices() == devices("a:1"));
    CHECK(pool.free_devices() == devices("b:1"));
    CHECK(pool.release("j", {"n", kA, 1}) == DevicePool::Released::kReturned);
    CHECK(pool.free_devices() == devices("a:1+b:1"));
    pool.check_invariants();
  }

  TEST_CASE("a device can be given back without a request, and only by its owner") {
    DevicePool pool;
    pool.join("n", devices("a:1"));
    pool.grant("j", kA, 1);
    CHECK(pool.release("k", {"n", kA, 0}) == DevicePool::Released::kNotItsOwn);
    CHECK(pool.release("j", {"n", kA, 7}) == DevicePool::Released::kNotItsOwn);
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kUnasked);
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kNotItsOwn);
    CHECK(pool.free_devices() == devices("a:1"));
  }

  TEST_CASE(
      "a job is given devices of the nodes that it uses already, then of the node with most free "
      "ones") {
    DevicePool pool;
    pool.join("big", devices("a:3"));
    pool.join("small", devices("a:2+b:1"));
    pool.grant("j", {"b"}, 1);
    pool.grant("j", kA, 1);
    CHECK(text(pool.held("j")) == "small/a:0 small/b:0");
    pool.grant("k", kA, 2);
    CHECK(text(pool.held("k")) == "big/a:0 big/a:1");
  }

  TEST_CASE("devices are taken back from the nodes on which the job has fewest") {
    DevicePool pool;
    pool.join("m", devices("a:1"));
    pool.join("n", devices("a:2"));
    pool.grant("j", kA, 3);
    pool.retire("j", kA, 1);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1");
    pool.retire("j", kA, 1);
    CHECK(text(pool.held("j")) == "n/a:0");
  }

  TEST_CASE(
      "a job is given the rack that is just large enough, then the nodes, so others stay whole") {
    DevicePool pool;
    pool.join("r1-a", devices("a:4"), {"r1", 0});
    pool.join("r1-b", devices("a:4"), {"r1", 0});
    pool.join("r2-a", devices("a:4"), {"r2", 0});
    pool.join("r2-b", devices("a:2"), {"r2", 0});
    // r2 has 6 devices, which is enough, and r1 keeps its 8.
    pool.grant("j", kA, 5);
    CHECK(text(pool.held("j")) == "r2-a/a:0 r2-a/a:1 r2-a/a:2 r2-a/a:3 r2-b/a:0");
    // The last device of r2 is enough for one.
    pool.grant("one", kA, 1);
    CHECK(text(pool.held("one")) == "r2-b/a:1");
    // A job that grows stays in its rack while there are devices.
    pool.grant("k", kA, 2);
    CHECK(text(pool.held("k")) == "r1-a/a:0 r1-a/a:1");
    pool.grant("k", kA, 3);
    CHECK(text(pool.held("k")) == "r1-a/a:0 r1-a/a:1 r1-a/a:2 r1-a/a:3 r1-b/a:0");
    pool.check_invariants();
  }

  TEST_CASE("if no rack is large enough, the job lies in as few of them as possible") {
    DevicePool pool;
    pool.join("a", devices("a:2"), {"r1", 0});
    pool.join("b", devices("a:3"), {"r2", 0});
    pool.join("c", devices("a:4"), {"r3", 0});
    pool.grant("j", kA, 6);
    CHECK(text(pool.held("j")) == "a/a:0 a/a:1 c/a:0 c/a:1 c/a:2 c/a:3");
    // It leaves the rack where it has fewest.
    pool.retire("j", kA, 1);
    pool.retire("j", kA, 1);
    CHECK(text(pool.held("j")) == "c/a:0 c/a:1 c/a:2 c/a:3");
    pool.check_invariants();
  }

  TEST_CASE("a job that may grow begins where there is room for it") {
    DevicePool pool;
    pool.join("a", devices("a:1"), {"r1", 0});
    pool.join("b", devices("a:3"), {"r1", 0});
    pool.join("c", devices("a:8"), {"r2", 0});
    pool.grant("j", kA, 1, {.room = 4});
    CHECK(text(pool.held("j")) == "c/a:0");
    pool.grant("k", kA, 1, {.room = 2});
    CHECK(text(pool.held("k")) == "b/a:0");
    pool.grant("one", kA, 1, {});
    CHECK(text(pool.held("one")) == "a/a:0");
    // No rack has enough room, so it begins in the largest one.
    pool.grant("l", kA, 1, {.room = 99});
    CHECK(text(pool.held("l")) == "c/a:1");
  }

  TEST_CASE("devices of an island go to one job") {
    DevicePool pool;
    pool.join("n", devices("a:8"), {"", 4});
    pool.grant("j", kA, 1);
    CHECK(text(pool.held("j")) == "n/a:0");
    pool.grant("k", kA, 4);
    CHECK(text(pool.held("k")) == "n/a:4 n/a:5 n/a:6 n/a:7");
    pool.grant("j", kA, 2);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1 n/a:2");
    pool.release_all("k");
    pool.grant("j", kA, 2);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1 n/a:2 n/a:3 n/a:4");
    pool.retire("j", kA, 1);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1 n/a:2 n/a:3");
    pool.check_invariants();
  }

  TEST_CASE("a node that has moved to another rack is found there") {
    DevicePool pool;
    pool.join("a", devices("a:2"), {"r1", 0});
    pool.join("b", devices("a:2"), {"r2", 0});
    pool.grant("j", kA, 1);
    CHECK(text(pool.held("j")) == "a/a:0");
    pool.lose("b");
    pool.join("b", devices("a:2"), {"r1", 0});
    pool.check_invariants();
    pool.grant("j", kA, 2);
    CHECK(text(pool.held("j")) == "a/a:0 a/a:1 b/a:0");
    pool.join("a", devices("a:2"));
    pool.check_invariants();
  }

  TEST_CASE("no device of a vacated node is granted, and jobs keep what they hold there") {
    DevicePool pool;
    pool.join("n", devices("a:3"));
    pool.suspect({"n", kA, 2}, "wrong");
    pool.grant("j", kA, 1);
    pool.vacate("n");
    pool.check_invariants();
    CHECK(pool.free_devices().empty());
    CHECK(pool.existing_devices() == devices("a:1"));
    CHECK(pool.held("j").size() == 1);
    // A repeated hello frees nothing, and neither does a job that leaves.
    pool.join("n", devices("a:3"));
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kUnasked);
    CHECK(pool.free_devices().empty());
    // After a restart of the head the job keeps its device.
    CHECK(pool.adopt("j", {"n", kA, 0}));
    CHECK(pool.stay("n", true));
    CHECK_FALSE(pool.stay("n", true));
    pool.check_invariants();
    CHECK(pool.free_devices() == devices("a:1"));
    CHECK(pool.existing_devices() == devices("a:2"));
    // One that was emptied is as after a hello: its job has to leave first.
    pool.vacate("n");
    pool.lose("n");
    CHECK(pool.stay("n", true));
    CHECK(pool.free_devices() == devices("a:1"));
    CHECK(pool.returning_devices() == devices("a:1"));
    pool.check_invariants();
    // One that is gone stays lost.
    pool.vacate("n");
    pool.lose("n");
    CHECK(pool.stay("n", false));
    CHECK(pool.free_devices().empty());
    pool.check_invariants();
  }

  TEST_CASE("spot devices go first to those who can lose them, and last to others") {
    DevicePool pool;
    pool.join("spot", devices("a:4"), {"r1", 0, true});
    pool.join("kept", devices("a:4"), {"r1", 0, false});
    pool.grant("j", kA, 1, {.on_spot = true});
    CHECK(text(pool.held("j")) == "spot/a:0");
    pool.grant("k", kA, 1, {.on_spot = false});
    CHECK(text(pool.held("k")) == "kept/a:0");
    pool.grant("k", kA, 4, {.on_spot = false});
    CHECK(text(pool.held("k")) == "kept/a:0 kept/a:1 kept/a:2 kept/a:3 spot/a:1");
    pool.check_invariants();
  }

  TEST_CASE("a device of a lost node is lost, not free, and its owner gets a report") {
    DevicePool pool;
    pool.join("n", devices("a:2"));
    pool.join("m", devices("a:1"));
    pool.grant("j", kA, 1);
    CHECK(pool.lose("n") == std::vector<JobId>{"j"});
    CHECK(pool.held("j").empty());
    CHECK(pool.free_devices() == devices("a:1"));
    CHECK(pool.existing_devices() == devices("a:1"));
    CHECK(pool.lose("n").empty());
    CHECK(pool.lose("never seen").empty());
    pool.check_invariants();
  }

  TEST_CASE("a lost device that was held comes back as returning until its owner releases it") {
    DevicePool pool;
    pool.join("n", devices("a:2"));
    pool.grant("j", kA, 1);
    pool.lose("n");
    pool.join("n", devices("a:2"));
    CHECK(pool.free_devices() == devices("a:1"));
    CHECK(pool.returning_devices() == devices("a:1"));
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kReturned);
    CHECK(pool.free_devices() == devices("a:2"));
  }

  TEST_CASE("a device released while its node is lost is free when the node comes back") {
    DevicePool pool;
    pool.join("n", devices("a:1"));
    pool.grant("j", kA, 1);
    pool.lose("n");
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kReturned);
    CHECK(pool.free_devices().empty());
    pool.join("n", devices("a:1"));
    CHECK(pool.free_devices() == devices("a:1"));
  }

  TEST_CASE("a device that a returned node no longer lists stays lost") {
    DevicePool pool;
    pool.join("n", devices("a:2"));
    pool.lose("n");
    pool.join("n", devices("a:1"));
    CHECK(pool.existing_devices() == devices("a:1"));
    pool.check_invariants();
  }

  TEST_CASE("a suspect device belongs to no job once it is released, until it is cleared") {
    DevicePool pool;
    pool.join("n", devices("a:2"));
    pool.grant("j", kA, 1);
    pool.suspect({"n", kA, 0}, "wrong");
    CHECK(pool.held("j").size() == 1);
    pool.suspect({"n", kA, 1}, "wrong too");
    CHECK(pool.free_devices().empty());
    CHECK(pool.release("j", {"n", kA, 0}) == DevicePool::Released::kUnasked);
    CHECK(pool.existing_devices().empty());
    CHECK(pool.nodes()[0].devices[0].suspect == "wrong");
    pool.check_invariants();
    CHECK(pool.clear({"n", kA, 0}));
    CHECK_FALSE(pool.clear({"n", kA, 0}));
    CHECK(pool.free_devices() == devices("a:1"));
    pool.check_invariants();
  }

  TEST_CASE("a suspect device stays suspect when its node comes, and comes back") {
    DevicePool pool;
    pool.suspect({"n", kA, 0}, "wrong");
    pool.join("n", devices("a:1"));
    CHECK(pool.free_devices().empty());
    pool.lose("n");
    pool.join("n", devices("a:1"));
    CHECK(pool.existing_devices().empty());
    CHECK(pool.clear({"n", kA, 0}));
    CHECK(pool.free_devices() == devices("a:1"));
    pool.check_invariants();
  }

  TEST_CASE("a device that is suspect until a time exists meanwhile, and is free after it") {
    DevicePool pool;
    pool.join("n", devices("a:3"));
    pool.suspect({"n", kA, 0}, "did not start", 5);
    pool.suspect({"n", kA, 1}, "wrong");
    pool.suspect({"n", kA, 1}, "did not start", 5);  // A finding of an audit stays.
    CHECK(pool.free_devices() == devices("a:1"));
    CHECK(pool.existing_devices() == devices("a:2"));
    CHECK(pool.nodes_with({kA}) == std::set<std::string>{"n"});
    CHECK(pool.next_clear_s() == 5);
    pool.check_invariants();
    pool.lose("n");
    pool.join("n", devices("a:3"));
    CHECK(pool.free_devices() == devices("a:1"));
    pool.check_invariants();
    pool.clear_until(4.9);
    CHECK(pool.free_devices() == devices("a:1"));
    pool.clear_until(5);
    CHECK(pool.free_devices() == devices("a:2"));
    CHECK_FALSE(pool.next_clear_s().has_value());
    pool.clear_timed("n");
    CHECK(pool.nodes()[0].devices[1].suspect == "wrong");
    pool.check_invariants();
  }

  TEST_CASE(
      "a grant leaves out nodes that the job avoids, and all but one of nodes without links") {
    DevicePool pool;
    pool.join("m", devices("a:2"));
    pool.join("n", devices("a:2"));
    DevicePool::Wish wish;
    wish.avoids = [](const std::string& node, const DeviceType&) { return node == "m"; };
    CHECK(pool.reachable("j", kA, wish) == 2);
    CHECK(pool.grant("j", kA, 3, wish) == 2);
    CHECK(text(pool.held("j")) == "n/a:0 n/a:1");
    wish.avoids = {};
    wish.cut = [](const std::string&, const std::string&) { return true; };
    CHECK(pool.grant("j", kA, 1, wish) == 0);
    pool.release_all("j");
    CHECK(pool.grant("j", kA, 4, wish) == 2);
    pool.check_invariants();
  }

  TEST_CASE("a node that says hello again keeps its owners and may add devices") {
    DevicePool pool;
    pool.join("n", devices("a:1"));
    pool.grant("j", kA, 1);
    pool.join("n", devices("a:2"));
    CHECK(text(pool.held("j")) == "n/a:0");
    CHECK(pool.free_devices() == devices("a:1"));
  }

  TEST_CASE("a job that has ended owns nothing, also on lost nodes") {
    DevicePool pool;
    pool.join("m", devices("a:2"));
    pool.join("n", devices("b:1"));
    pool.grant("j", kA, 2);
    pool.grant("j", {"b"}, 1);
    pool.retire("j", kA, 1);
    pool.lose("n");
    pool.release_all("j");
    CHECK(pool.owners().empty());
    CHECK(pool.free_devices() == devices("a:2"));
    pool.join("n", devices("b:1"));
    CHECK(pool.free_devices() == devices("a:2+b:1"));
    pool.check_invariants();
  }

  TEST_CASE("nodes are listed by name with their devices and owners, lost nodes too") {
    DevicePool pool;
    pool.join("n", devices("a:1"));
    pool.join("m", devices("b:1"));
    pool.grant("j", kA, 1);
    pool.lose("m");
    const auto nodes = pool.nodes();
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].name == "m");
    CHECK_FALSE(nodes[0].alive);
    CHECK(nodes[1].devices.at(0).owner == "j");
  }
}

}  // namespace es::actors
