#include "actors/head/intra_job/shell/ordered_effects.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace es::actors {
namespace {

using namespace intra_job;
using Lines = std::vector<std::string>;

// Performs log lines, and steps of the ledger while the disk works.
struct Bench {
  bool disk_works = true;
  Instant real = std::chrono::seconds(1);
  Lines done;  // what was performed and reported, in order
  JobClock clock{[this] { return real; }, [] { return std::uint64_t{0}; }};
  OrderedEffects effects{clock,
                         {.perform = [this](const Effect& e) { return perform(e); },
                          .before_held = [this] { return write("refusals"); },
                          .step_reported = [this] { done.push_back("step"); },
                          .stalled = [this](const Error& e) { done.push_back(e.message); }}};

  Status write(const std::string& what) {
    if (!disk_works) return failure("disk full");
    done.push_back(what);
    return {};
  }
  Status perform(const Effect& effect) {
    if (std::holds_alternative<LedgerLineAdded>(effect)) return write("line");
    if (std::holds_alternative<SaveRecord>(effect)) return write("record");
    if (const auto* log = std::get_if<LogLine>(&effect)) done.push_back(log->text);
    if (std::holds_alternative<StartWorker>(effect)) done.push_back("start");
    return {};
  }
  Lines take() { return std::exchange(done, {}); }
};

TEST_SUITE("actors/head/intra_job/ordered_effects") {
  TEST_CASE("effects are performed in order, and a step is reported after its line is written") {
    Bench b;
    b.effects.perform({LogLine{"a"}, LedgerLineAdded{}, LogLine{"b"}});
    CHECK(b.done == Lines{"a", "line", "step", "b"});
    CHECK(b.effects.empty());
  }

  TEST_CASE("after a failed write everything waits, and a step is reported at once") {
    Bench b;
    b.disk_works = false;
    b.effects.perform({LogLine{"a"}, SaveRecord{}, LogLine{"b"}, LedgerLineAdded{}});
    b.effects.perform({LogLine{"c"}});
    CHECK(b.take() == Lines{"a", "disk full", "step"});
    CHECK(b.effects.is_stalled());
    CHECK_FALSE(b.effects.empty());

    b.disk_works = true;
    CHECK(b.effects.recover());
    CHECK(b.done == Lines{"refusals", "record", "b", "line", "c"});
    CHECK(b.effects.empty());
    CHECK_FALSE(b.effects.recover());
  }

  TEST_CASE("a disk that fails again keeps the failed effect as the first") {
    Bench b;
    b.disk_works = false;
    b.effects.perform({SaveRecord{}, LogLine{"a"}});
    b.take();
    CHECK_FALSE(b.effects.recover());
    CHECK(b.done == Lines{"disk full"});
    b.disk_works = true;
    b.take();
    CHECK(b.effects.recover());
    CHECK(b.done == Lines{"refusals", "record", "a"});
  }

  TEST_CASE("the core's time stands still while an effect waits whose answer has a time limit") {
    Bench b;
    b.disk_works = false;
    b.effects.perform({SaveRecord{}, LogLine{"a"}});
    b.real += std::chrono::seconds(5);
    CHECK(b.clock.now() == std::chrono::seconds(6));
    b.effects.perform({StartWorker{}});
    b.real += std::chrono::seconds(5);
    CHECK(b.clock.now() == std::chrono::seconds(6));
    b.disk_works = true;
    CHECK(b.effects.recover());
    CHECK(b.clock.now() == std::chrono::seconds(6));
  }

  TEST_CASE("a write besides the effects that fails holds them too") {
    Bench b;
    b.effects.stall(failure("refusals not written"));
    b.effects.perform({LogLine{"a"}});
    CHECK(b.take() == Lines{"refusals not written"});
    REQUIRE(b.effects.trouble());
    CHECK(b.effects.trouble()->message == "refusals not written");
    CHECK(b.effects.recover());
    CHECK(b.done == Lines{"refusals", "a"});
  }

  TEST_CASE("what an effect leads to is performed before the next effect") {
    Bench b;
    OrderedEffects* nested = nullptr;
    JobClock clock([] { return Instant{}; }, [] { return std::uint64_t{0}; });
    OrderedEffects effects(clock, {.perform =
                                       [&](const Effect& e) {
                                         const std::string& text = std::get<LogLine>(e).text;
                                         if (text == "a") nested->perform({LogLine{"within a"}});
                                         b.done.push_back(text);
                                         return Status();
                                       },
                                   .before_held = [] { return Status(); },
                                   .step_reported = [] {},
                                   .stalled = [](const Error&) {}});
    nested = &effects;
    effects.perform({LogLine{"a"}, LogLine{"b"}});
    CHECK(b.done == Lines{"within a", "a", "b"});
  }
}

}  // namespace
}  // namespace es::actors
