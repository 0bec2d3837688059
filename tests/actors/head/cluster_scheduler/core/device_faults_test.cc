#include "actors/head/cluster_scheduler/core/device_faults.h"

#include <doctest/doctest.h>

namespace es::actors {
namespace {

using Fault = protocol::DeviceFailed::Fault;
using Nodes = std::set<std::string>;

constexpr Instant kNow = std::chrono::hours(1);

DeviceId device(const std::string& node, std::uint32_t index = 0) {
  return {node, {"a"}, index};
}

protocol::DeviceFailed by_node(const DeviceId& id) {
  return {id, "the disk is full", Fault::kNode, ""};
}

protocol::DeviceFailed unknown(const DeviceId& id) {
  return {id, "exited with status 1", Fault::kUnknown, ""};
}

protocol::DeviceFailed link(const std::string& a, const std::string& b) {
  return {device(a), "no link", Fault::kLink, b};
}

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/device_faults") {
  TEST_CASE("of a node that starts no process first a device is set aside, then the node") {
    DeviceFaults faults;
    const auto first = faults.failed("j", by_node(device("n", 0)), true, kNow);
    CHECK(first.end == kNow + kPauseShortest);
    CHECK_FALSE(first.whole_node);
    const auto second = faults.failed("k", by_node(device("n", 1)), true, kNow);
    CHECK(second.end == kNow + kPauseShortest);
    CHECK(second.whole_node);
    // After its pause one failure is enough, and the next pause is longer.
    const Instant later = kNow + kPauseShortest;
    const auto third = faults.failed("k", by_node(device("n", 0)), true, later);
    CHECK(third.whole_node);
    CHECK(third.end == later + 2 * kPauseShortest);
    CHECK(faults.avoided("k", {"n", "m"}, later).empty());  // It is no matter of this job.
  }

  TEST_CASE("a node with other kernels is avoided by one job, and nothing is set aside") {
    DeviceFaults faults;
    CHECK(faults.empty());
    const protocol::DeviceFailed other_kernels{device("n"), "other kernels", Fault::kUnsuited, ""};
    for (const char* job : {"j", "k"}) {
      const auto ruling = faults.failed(job, other_kernels, true, kNow);
      CHECK_FALSE(ruling.end.has_value());
      CHECK_FALSE(ruling.whole_node);
    }
    CHECK(faults.avoided("j", {"n", "m"}, kNow) == Nodes{"n"});
    CHECK(faults.avoided("l", {"n", "m"}, kNow).empty());
    CHECK_FALSE(faults.empty());
    // What j computes on another node proves nothing about this one during its pause.
    faults.work("j", {device("m")});
    CHECK(faults.avoided("j", {"n", "m"}, kNow) == Nodes{"n"});
  }

  TEST_CASE("a node that works again begins with one device and the shortest pause") {
    DeviceFaults faults;
    faults.failed("j", by_node(device("n", 0)), true, kNow);
    faults.failed("j", by_node(device("n", 1)), true, kNow);
    const auto back = faults.work("k", {device("n", 0)});
    REQUIRE(back.size() == 1);
    CHECK(back[0].node == "n");
    CHECK_FALSE(back[0].device.has_value());
    const auto again = faults.failed("j", by_node(device("n", 0)), true, kNow);
    CHECK_FALSE(again.whole_node);
    CHECK(again.end == kNow + kPauseShortest);
  }

  TEST_CASE("a job alone takes one device out of service, and is tried on other nodes") {
    DeviceFaults faults;
    CHECK(faults.failed("j", unknown(device("n", 0)), true, kNow).end.has_value());
    const auto second = faults.failed("j", unknown(device("n", 1)), true, kNow);
    CHECK(second.back == device("n", 0));
    CHECK_FALSE(second.whole_node);
    CHECK(faults.avoided("j", {"n", "m"}, kNow) == Nodes{"n"});
    CHECK(faults.avoided("k", {"n", "m"}, kNow).empty());
    // After the pause, too, as long as it can be tried elsewhere.
    const Instant later = kNow + kPauseShortest;
    CHECK(faults.avoided("j", {"n", "m"}, later) == Nodes{"n"});
    CHECK(faults.avoided("j", {"n"}, later).empty());
    const auto back = faults.ended("j");
    REQUIRE(back.size() == 1);
    CHECK(back[0].device == device("n", 1));
    CHECK(faults.avoided("j", {"n", "m"}, kNow).empty());
  }

  TEST_CASE("a job that has nothing else to use sets nothing aside") {
    DeviceFaults faults;
    const auto ruling = faults.failed("j", unknown(device("n")), false, kNow);
    CHECK_FALSE(ruling.end.has_value());
    CHECK(faults.avoided("j", {"n"}, kNow).empty());
  }

  TEST_CASE("a node on which two jobs fail is set aside, until one of them ends by its own fault") {
    DeviceFaults faults;
    faults.failed("j", unknown(device("n", 0)), true, kNow);
    CHECK(faults.failed("k", unknown(device("n", 1)), true, kNow).whole_node);
    const auto back = faults.ended("k");
    REQUIRE(back.size() == 2);
    CHECK(back[0].node == "n");
    CHECK_FALSE(back[0].device.has_value());
    CHECK(back[1].device == device("n", 1));
  }

  TEST_CASE("a job that computes elsewhere is tried on the node again after its pause") {
    DeviceFaults faults;
    faults.failed("j", unknown(device("n")), true, kNow);
    faults.work("j", {device("m")});
    CHECK(faults.avoided("j", {"n", "m"}, kNow) == Nodes{"n"});
    CHECK(faults.avoided("j", {"n", "m"}, kNow + kPauseShortest).empty());
  }

  TEST_CASE("nodes without a link share no job for a while, and work together clears them") {
    DeviceFaults faults;
    CHECK_FALSE(faults.failed("j", link("n", "m"), true, kNow).end.has_value());
    CHECK(faults.are_cut("m", "n", kNow));
    CHECK_FALSE(faults.are_cut("n", "o", kNow));
    CHECK_FALSE(faults.are_cut("n", "n", kNow));
    CHECK(faults.cut_from("n", kNow).at(0).first == "m");
    CHECK_FALSE(faults.are_cut("m", "n", kNow + kLinkPauseShortest));
    faults.work("k", {device("n"), device("o")});
    CHECK(faults.are_cut("m", "n", kNow));
    faults.work("k", {device("n"), device("m")});
    CHECK_FALSE(faults.are_cut("m", "n", kNow));
  }

  TEST_CASE("a node that reaches two others in vain is given alone") {
    DeviceFaults faults;
    faults.failed("j", link("bad", "n"), true, kNow);
    faults.failed("j", link("bad", "m"), true, kNow);
    CHECK(faults.are_cut("bad", "never tried", kNow));
    CHECK_FALSE(faults.are_cut("n", "m", kNow));
    CHECK_FALSE(faults.are_cut("n", "never tried", kNow));
    faults.forget("bad");
    CHECK_FALSE(faults.are_cut("bad", "n", kNow));
  }

  TEST_CASE("workers of one node that cannot reach each other are a fault of the device") {
    DeviceFaults faults;
    const auto ruling = faults.failed("j", link("n", "n"), true, kNow);
    CHECK(ruling.end.has_value());
    CHECK_FALSE(faults.has_cuts(kNow));
  }
}

}  // namespace es::actors
