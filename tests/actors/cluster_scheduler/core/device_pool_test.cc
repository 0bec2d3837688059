#include "actors/cluster_scheduler/core/device_pool.h"

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

TEST_SUITE("actors/cluster_scheduler/device_pool") {
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
