#include "actors/worker/core/slice_queue.h"

#include <doctest/doctest.h>

#include <string>

namespace es::actors::worker {
namespace {

constexpr Generation kOne{1}, kTwo{2};
constexpr Instant kShort = std::chrono::milliseconds(1);

std::string text(const GrantSlices& e) {
  return "grant " + std::to_string(e.step) + "/" + std::to_string(e.ranks.begin) + "-" +
         std::to_string(e.ranks.end - 1);
}
std::string text(const EndSlice& e) {
  return "end " + std::to_string(e.step) + "/" + std::to_string(e.rank) + " slot " +
         std::to_string(e.slot);
}
std::string text(const AnnounceSlice& e) {
  return "announce " + std::to_string(e.step) + "/" + std::to_string(e.rank);
}
std::string text(const YieldToMailbox&) {
  return "yield";
}
std::string text(const RunSlice& e) {
  const std::string following =
      e.following ? " before " + std::to_string(e.following->rank) : std::string();
  return "run " + std::to_string(e.slice.step) + "/" + std::to_string(e.slice.rank) + following;
}
std::string text(const StayIdle& e) {
  return e.step_is_over ? "rest after the step" : "rest";
}

// All effects in their order, and the slice that runs, separated by "; ".
std::string text(const SliceDecision& decision) {
  std::string all;
  const auto add = [&](const std::string& one) { all += (all.empty() ? "" : "; ") + one; };
  for (const SliceEffect& effect : decision.effects)
    add(std::visit([](const auto& e) { return text(e); }, effect));
  if (decision.run) add(text(*decision.run));
  return all;
}

// The mini-batch of rank r is in slot 10 + r.
Slice slice(Version step, VirtualRank rank, Generation generation = kOne) {
  return {.generation = generation, .step = step, .rank = rank, .slot = 10 + rank};
}

TEST_SUITE("actors/worker/slice_queue") {
  TEST_CASE("slices run in rank order, whatever their order of arrival") {
    SliceQueue queue;
    CHECK(text(queue.begin(kOne, 7, {2, 5})) == "announce 7/2; grant 7/2-4");
    CHECK(text(queue.add(slice(7, 4), {})).empty());
    CHECK(text(queue.add(slice(7, 3), {})).empty());
    CHECK(text(queue.add(slice(7, 2), {})) == "yield");
    CHECK(text(queue.resume({})) == "run 7/2 before 3");
    CHECK(text(queue.finished(kShort, {})) == "run 7/3 before 4");
    CHECK(text(queue.finished(2 * kShort, {})) == "run 7/4");
    CHECK(text(queue.finished(3 * kShort, {})) ==
          "rest after the step; end 7/2 slot 12; end 7/3 slot 13; end 7/4 slot 14; announce 8/2");
  }

  TEST_CASE("the mailbox is read once more if the following slice is not known yet") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 3});
    CHECK(text(queue.add(slice(0, 0), {})) == "yield");
    CHECK(text(queue.add(slice(0, 1), {})).empty());  // one resume() is pending already
    CHECK(text(queue.resume({})) == "run 0/0 before 1");
    CHECK(text(queue.finished(kShort, {})) == "yield");
    CHECK(text(queue.add(slice(0, 2), {})).empty());
    CHECK(text(queue.resume({})) == "run 0/1 before 2");
  }

  TEST_CASE("a slice runs although the following one has not arrived") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 3});
    queue.add(slice(0, 0), {});
    CHECK(text(queue.resume({})) == "run 0/0");
    CHECK(text(queue.finished(kShort, {})) == "rest; end 0/0 slot 10; announce 0/1");
    CHECK(text(queue.add(slice(0, 1), {})) == "yield");
    CHECK(text(queue.resume({})) == "run 0/1");
  }

  TEST_CASE("the last rank of a step waits for no following one") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 2});
    queue.add(slice(0, 1), {});
    queue.add(slice(0, 0), {});
    CHECK(text(queue.resume({})) == "run 0/0 before 1");
    CHECK(text(queue.finished(kShort, {})) == "run 0/1");
  }

  TEST_CASE("the ends of short slices are reported together, those of long ones at once") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 5});
    for (const VirtualRank rank : {1, 2, 3, 4, 0}) queue.add(slice(0, rank), {});
    CHECK(text(queue.resume({})) == "run 0/0 before 1");
    CHECK(text(queue.finished(kReportInterval - kShort, {})) == "run 0/1 before 2");
    CHECK(text(queue.finished(kReportInterval, {})) ==
          "end 0/0 slot 10; end 0/1 slot 11; announce 0/2; run 0/2 before 3");
    CHECK(text(queue.finished(2 * kReportInterval - kShort, {})) == "run 0/3 before 4");
    CHECK(text(queue.finished(2 * kReportInterval, {})) ==
          "end 0/2 slot 12; end 0/3 slot 13; announce 0/4; run 0/4");
    // The interval begins anew with the step.
    queue.finished(2 * kReportInterval + kShort, {});
    queue.begin(kOne, 1, {0, 5});
    for (const VirtualRank rank : {1, 2, 0}) queue.add(slice(1, rank), {});
    queue.resume({});
    CHECK(text(queue.finished(kReportInterval - kShort, {})) == "run 1/1 before 2");
  }

  TEST_CASE("a slice that does not belong to the step, or has run, is ended at once") {
    SliceQueue queue;
    CHECK(text(queue.add(slice(0, 0), {})) == "end 0/0 slot 10");
    queue.begin(kTwo, 3, {0, 2});
    CHECK(text(queue.add(slice(3, 0, kOne), {})) == "end 3/0 slot 10");
    CHECK(text(queue.add(slice(2, 0, kTwo), {})) == "end 2/0 slot 10");
    queue.add(slice(3, 0, kTwo), {});
    queue.resume({});
    queue.finished(kShort, {});
    CHECK(text(queue.add(slice(3, 0, kTwo), {})) == "end 3/0 slot 10");
  }

  TEST_CASE("nothing of an abandoned generation begins, also before the queue is told") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 3});
    for (const VirtualRank rank : {2, 1, 0}) queue.add(slice(0, rank), {});
    CHECK(text(queue.resume(kOne)) == "run 0/0 before 1");
    CHECK(text(queue.finished(kShort, kTwo)) == "rest; end 0/0 slot 10; announce 0/1");
    CHECK(text(queue.add(slice(0, 1), kTwo)) == "end 0/1 slot 11");
    CHECK(text(queue.resume(kTwo)) == "rest");
    CHECK(text(queue.abandon()) == "end 0/1 slot 11; end 0/2 slot 12");
    CHECK(text(queue.abandon()).empty());
    CHECK(text(queue.resume(kTwo)).empty());
    CHECK(text(queue.add(slice(0, 1), {})) == "end 0/1 slot 11");
  }

  TEST_CASE("a resume() that was requested under an older generation runs the new step") {
    SliceQueue queue;
    queue.begin(kOne, 4, {0, 2});
    CHECK(text(queue.add(slice(4, 0), {})) == "yield");
    CHECK(text(queue.abandon()) == "end 4/0 slot 10");
    CHECK(text(queue.begin(kTwo, 3, {1, 2})) == "announce 3/1; grant 3/1-1");
    CHECK(text(queue.add(slice(3, 1, kTwo), kTwo)).empty());
    CHECK(text(queue.resume(kTwo)) == "run 3/1");
  }

  TEST_CASE("after a failed slice all slots go back and nothing runs") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 3});
    for (const VirtualRank rank : {1, 2, 0}) queue.add(slice(0, rank), {});
    queue.resume({});
    queue.finished(kShort, {});
    CHECK(text(queue.failed()) ==
          "end 0/0 slot 10; end 0/1 slot 11; announce 0/1; end 0/2 slot 12");
    CHECK(text(queue.add(slice(0, 1), {})) == "end 0/1 slot 11");
    CHECK(text(queue.resume({})).empty());
  }

  TEST_CASE(
      "a mini-batch that could not be loaded is not copied ahead, but its slice fails in turn") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 2});
    Slice bad = slice(0, 1);
    bad.error = "record 11: damaged";
    queue.add(bad, {});
    queue.add(slice(0, 0), {});
    CHECK(text(queue.resume({})) == "run 0/0");
    const SliceDecision next = queue.finished(kShort, {});
    REQUIRE(text(next) == "run 0/1");
    CHECK(next.run->slice.error == "record 11: damaged");
  }

  TEST_CASE("each arrival has a number of its own, because slots are used again") {
    SliceQueue queue;
    queue.begin(kOne, 0, {0, 1});
    queue.add(slice(0, 0), {});
    const SliceDecision first = queue.resume({});
    queue.finished(kShort, {});
    queue.begin(kOne, 1, {0, 1});
    queue.add(slice(1, 0), {});
    const SliceDecision second = queue.resume({});
    REQUIRE(first.run);
    REQUIRE(second.run);
    CHECK(first.run->slice.arrival != second.run->slice.arrival);
  }
}

}  // namespace
}  // namespace es::actors::worker
