#include "actors/worker/est/core/est_core.h"

#include <doctest/doctest.h>

#include <string>

using namespace es;
using namespace es::actors;

namespace {

constexpr Version kLast = 9;
constexpr Generation kOne{1}, kTwo{2};

std::string text(const RequestBatch& e) {
  return "request " + std::to_string(e.step);
}
std::string text(const ReturnSlot& e) {
  return "return slot " + std::to_string(e.slot);
}
std::string text(const OfferSlice& e) {
  return "offer " + std::to_string(e.batch.step) + " in slot " + std::to_string(e.batch.slot) +
         " under " + std::to_string(e.generation.value);
}

// All effects in their order, separated by "; ".
std::string text(const EstEffects& effects) {
  std::string all;
  for (const EstEffect& effect : effects)
    all += (all.empty() ? "" : "; ") + std::visit([](const auto& e) { return text(e); }, effect);
  return all;
}

}  // namespace

TEST_SUITE("actors/est_core") {
  TEST_CASE("the next mini-batch is requested when a slice is offered") {
    EstCore est(kLast);
    CHECK(text(est.granted(kOne, 3)) == "request 3");
    CHECK(text(est.loaded({3, 0})) == "offer 3 in slot 0 under 1; request 4");
    CHECK(text(est.loaded({4, 1})).empty());
    CHECK(text(est.granted(kOne, 4)) == "offer 4 in slot 1 under 1; request 5");
    CHECK(text(est.granted(kOne, 5)).empty());  // it is requested already
    CHECK(text(est.loaded({5, 0})) == "offer 5 in slot 0 under 1; request 6");
  }

  TEST_CASE("nothing is requested beyond the last version") {
    EstCore est(kLast);
    est.granted(kOne, kLast - 1);
    CHECK(text(est.loaded({kLast - 1, 0})) == "offer 8 in slot 0 under 1");
  }

  TEST_CASE("a mini-batch of another step than the granted one is returned") {
    EstCore est(kLast);
    est.granted(kOne, 3);
    est.loaded({3, 0});
    est.loaded({4, 1});
    CHECK(text(est.granted(kTwo, 3)) == "return slot 1; request 3");
    CHECK(text(est.loaded({3, 0})) == "offer 3 in slot 0 under 2; request 4");
  }

  TEST_CASE("an answer to a request that was replaced is returned") {
    EstCore est(kLast);
    est.granted(kOne, 3);
    est.loaded({3, 0});  // requests 4
    CHECK(text(est.granted(kTwo, 3)) == "request 3");
    CHECK(text(est.loaded({4, 1})) == "return slot 1");
    CHECK(text(est.loaded({3, 0})) == "offer 3 in slot 0 under 2; request 4");
  }

  TEST_CASE("a dismissed EST keeps nothing and offers nothing") {
    EstCore est(kLast);
    est.granted(kOne, 3);
    CHECK(text(est.dismissed()).empty());
    CHECK(text(est.loaded({3, 0})) == "return slot 0");
    est.granted(kTwo, 3);
    est.loaded({3, 0});
    est.loaded({4, 1});
    CHECK(text(est.dismissed()) == "return slot 1");
    CHECK(text(est.granted(kTwo, 4)) == "request 4");
  }

  TEST_CASE("an answer from before a dismissal is returned, also if its step is wanted again") {
    EstCore est(kLast);
    est.granted(kOne, 3);
    est.dismissed();
    CHECK(text(est.granted(kTwo, 3)) == "request 3");
    CHECK(text(est.loaded({3, 0})) == "return slot 0");
    CHECK(text(est.loaded({3, 1})) == "offer 3 in slot 1 under 2; request 4");
  }

  TEST_CASE("an error of the mini-batch travels with its slice") {
    EstCore est(kLast);
    est.granted(kOne, 3);
    const EstEffects effects = est.loaded({3, 0, "record 11: damaged"});
    REQUIRE(!effects.empty());
    CHECK(std::get<OfferSlice>(effects.front()).batch.error == "record 11: damaged");
  }
}
