#include "actors/worker/data_workers/core/batch_queue.h"

#include <doctest/doctest.h>

#include <string>

using namespace es;
using namespace es::actors;

namespace {

// "STEP/RANK" of each fill, separated by spaces.
std::string text(const std::vector<Fill>& fills) {
  std::string all;
  for (const Fill& fill : fills)
    all += (all.empty() ? "" : " ") + std::to_string(fill.step) + "/" + std::to_string(fill.rank);
  return all;
}

}  // namespace

TEST_SUITE("actors/batch_queue") {
  TEST_CASE("requests are served by step and then by rank") {
    BatchQueue queue(4, 1);
    CHECK(text(queue.request(5, 0)) == "5/0");  // the only loader is busy now
    CHECK(text(queue.request(5, 2)).empty());
    CHECK(text(queue.request(4, 3)).empty());
    CHECK(text(queue.request(5, 1)).empty());
    CHECK(text(queue.loader_free()) == "4/3");
    CHECK(text(queue.loader_free()) == "5/1");
  }

  TEST_CASE("several loaders work at once, each on a slot of its own") {
    BatchQueue queue(4, 2);
    const std::vector<Fill> first = queue.request(0, 0), second = queue.request(0, 1);
    REQUIRE(first.size() == 1);
    REQUIRE(second.size() == 1);
    CHECK(first[0].slot != second[0].slot);
    CHECK(text(queue.request(0, 2)).empty());
  }

  TEST_CASE("the last free slot waits for the slice that runs next") {
    BatchQueue queue(2, 2);
    queue.next_slice(0, 0);
    CHECK(text(queue.request(0, 2)) == "0/2");
    CHECK(text(queue.request(0, 1)).empty());
    CHECK(text(queue.request(0, 0)) == "0/0");
    queue.loader_free();
    queue.loader_free();
    CHECK(text(queue.next_slice(0, 1)).empty());  // no slot is free
    CHECK(text(queue.slot_free(0)) == "0/1");
  }

  TEST_CASE("an announcement lets a waiting request have the last slot") {
    BatchQueue queue(1, 1);
    CHECK(text(queue.request(7, 3)).empty());
    CHECK(text(queue.next_slice(7, 3)) == "7/3");
  }
}
