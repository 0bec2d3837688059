#include "actors/kubernetes/core/job_keeper.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors::kubernetes;
using std::chrono::seconds;

namespace {

// One job, its head and the server, as the actor of the jobs connects them.
struct Scene {
  Json object{
      {"metadata", {{"name", "x"}, {"uid", "u"}, {"generation", 1}, {"finalizers", {kFinalizer}}}},
      {"spec", Json::object()}};
  HeadFacts head{.number = 1, .jobs = {}, .nodes = {}, .claims = {}};
  JobKeeper keeper;
  Surroundings around{.head = &head, .first_type = "h100", .clock = "t"};
  bool server_answers = true;

  JobWork look() {
    ++around.number;
    JobWork work = keeper.decide(object, around);
    if (work.status && server_answers) {
      object["status"] = *work.status;
      keeper.written(object, *work.status, "t");
    }
    return work;
  }
  // Looks until something is asked, or nothing more is to be written.
  std::optional<JobOrder> next_request() {
    for (int i = 0; i < 4; ++i)
      if (const JobWork work = look(); work.ask) return work.ask;
    return {};
  }
  void answer(Status status, const std::string& job = {}) {
    keeper.answered({.number = around.number, .look = head.number, .job = job, .status = status},
                    around.now);
  }
  void pass_a_second() {
    around.now += seconds(1);
    ++head.number;
  }
  void be_accepted() {
    REQUIRE(next_request() == JobOrder{JobStep::kSubmit});
    answer({}, "x-1");
    pass_a_second();
    head.jobs["x-1"] = {.id = "x-1", .state = "running", .placement = "h100:1", .devices = 1};
  }
  Json condition(const char* type) const {
    for (const Json& one : object["status"]["conditions"])
      if (one["type"] == type) return one;
    return {};
  }
};

}  // namespace

TEST_SUITE("actors/kubernetes/core/job_keeper") {
  TEST_CASE("a job is submitted once, and facts that are older than its answer say nothing") {
    Scene scene;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kSubmit});
    const std::uint64_t number = scene.around.number;
    CHECK(!scene.look().ask);
    scene.keeper.answered({.number = number, .look = 1, .job = "x-1", .status = {}},
                          scene.around.now);
    const JobWork old = scene.keeper.decide(scene.object, scene.around);
    CHECK((!old.ask && !old.status));
    scene.pass_a_second();
    scene.head.jobs["x-1"] = {.id = "x-1", .state = "running"};
    scene.look();
    CHECK(scene.object["status"]["job"] == "x-1");
    CHECK(scene.condition("Accepted")["status"] == "True");
  }

  TEST_CASE("a wrong job is not submitted again before it has changed, a refused one is") {
    Scene scene;
    REQUIRE(scene.next_request());
    scene.answer(usage_error("no such model"));
    scene.pass_a_second();
    CHECK(!scene.next_request());
    CHECK(scene.object["status"]["phase"] == "Refused");
    scene.object["metadata"]["generation"] = 2;
    REQUIRE(scene.next_request());
    scene.answer(refused("the disk is full"));
    scene.pass_a_second();
    CHECK(!scene.next_request());
    CHECK(scene.object["status"]["phase"] == kWaiting);
    scene.around.now += JobKeeper::kAskAgain;
    CHECK(scene.next_request() == JobOrder{JobStep::kSubmit});
  }

  TEST_CASE(
      "a refusal that comes minutes later becomes the condition, and nothing is sent meanwhile") {
    Scene scene;
    scene.be_accepted();
    scene.object["spec"]["devices"] = 3;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
    const std::uint64_t number = scene.around.number;
    for (int second = 0; second < 300; ++second) {
      scene.pass_a_second();
      REQUIRE(!scene.look().ask);
    }
    CHECK(scene.condition("Scaled")["reason"] == "Asked");
    scene.keeper.answered({.number = number, .look = 1, .job = {}, .status = refused("too many")},
                          scene.around.now);
    scene.look();
    CHECK(scene.condition("Scaled")["reason"] == "Refused");
    CHECK(scene.condition("Scaled")["message"] == "too many");
    scene.around.now += JobKeeper::kAskAgain;
    CHECK(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
    scene.answer({});
    scene.pass_a_second();
    CHECK(!scene.next_request());
    CHECK(scene.condition("Scaled")["status"] == "True");
  }

  TEST_CASE("a later wish takes the place of one that waits, and only its answer counts") {
    Scene scene;
    scene.be_accepted();
    scene.object["spec"]["devices"] = 3;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
    const std::uint64_t first = scene.around.number;
    scene.object["spec"]["devices"] = 2;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kScale, "h100:2"});
    const std::uint64_t second = scene.around.number;
    scene.keeper.answered({.number = first, .look = 1, .job = {}, .status = refused("replaced")},
                          scene.around.now);
    scene.look();
    CHECK(scene.condition("Scaled")["reason"] == "Asked");
    scene.keeper.answered({.number = second, .look = 1, .job = {}, .status = {}}, scene.around.now);
    scene.look();
    CHECK(scene.condition("Scaled")["status"] == "True");
    // The way back is a wish, too.
    scene.object["spec"]["devices"] = 3;
    REQUIRE(scene.next_request());
    scene.object["spec"]["devices"] = 2;
    CHECK(scene.next_request() == JobOrder{JobStep::kScale, "h100:2"});
  }

  TEST_CASE("suspending goes before a scale that waits, which is asked for again afterwards") {
    Scene scene;
    scene.be_accepted();
    scene.object["spec"]["devices"] = 3;
    REQUIRE(scene.next_request());
    scene.object["spec"]["suspend"] = true;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kPause});
    scene.answer({});
    scene.pass_a_second();
    scene.head.jobs["x-1"].state = "paused";
    CHECK(!scene.next_request());
    scene.object["spec"]["suspend"] = false;
    REQUIRE(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
    scene.answer({});
    scene.pass_a_second();
    CHECK(scene.next_request() == JobOrder{JobStep::kResume});
  }

  TEST_CASE(
      "the demand is in the status before the head is asked, so that the next one asks again") {
    Scene scene;
    scene.be_accepted();
    scene.look();
    scene.object["spec"]["devices"] = 3;
    scene.server_answers = false;
    for (int i = 0; i < 3; ++i) CHECK(!scene.look().ask);
    scene.server_answers = true;
    CHECK(!scene.look().ask);
    CHECK(scene.object["status"]["demand"] == "h100:3");
    REQUIRE(scene.look().ask == JobOrder{JobStep::kScale, "h100:3"});
    scene.keeper = JobKeeper();  // another controller
    CHECK(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
    // An answer that was lost with the head is asked for again.
    scene.answer(failure("the head has ended"));
    scene.pass_a_second();
    CHECK(scene.next_request() == JobOrder{JobStep::kScale, "h100:3"});
  }

  TEST_CASE("a deleted job that its object does not name is searched, found and cancelled") {
    Scene scene;
    scene.object["metadata"]["deletionTimestamp"] = "t";
    REQUIRE(scene.next_request() == JobOrder{JobStep::kFind});
    scene.answer({}, "x-1");
    scene.pass_a_second();
    scene.head.jobs["x-1"] = {.id = "x-1", .state = "running"};
    REQUIRE(scene.next_request() == JobOrder{JobStep::kCancel});
    scene.answer({});
    scene.pass_a_second();
    scene.head.jobs["x-1"].state = "cancelled";
    const JobWork work = scene.look();
    CHECK(!work.status);
    CHECK(work.finalizers->at("metadata")["finalizers"].empty());
  }

  TEST_CASE("a deleted job waits for its head, and for none if its cluster is gone") {
    Scene scene;
    scene.object["metadata"]["deletionTimestamp"] = "t";
    scene.around.head = nullptr;
    CHECK(!scene.look().finalizers);
    scene.around.has_cluster = false;
    CHECK(scene.look().finalizers);
  }

  TEST_CASE("each change of phase, placement or refusal is one event") {
    Scene scene;
    scene.be_accepted();
    ++scene.around.number;
    const JobWork work = scene.keeper.decide(scene.object, scene.around);
    REQUIRE(work.status);
    const auto event = scene.keeper.written(scene.object, *work.status, "t");
    REQUIRE(event);
    CHECK(event->at("reason") == "Running");
    CHECK(event->at("type") == "Normal");
    CHECK(event->at("involvedObject")["uid"] == "u");
    CHECK(!scene.keeper.written(scene.object, *work.status, "t2"));
    scene.object["spec"]["maxP"] = 9;
    ++scene.around.number;
    const JobWork changed = scene.keeper.decide(scene.object, scene.around);
    const auto warning = scene.keeper.written(scene.object, *changed.status, "t3");
    REQUIRE(warning);
    CHECK(warning->at("type") == "Warning");
    CHECK(warning->at("message").get<std::string>().starts_with("spec.maxP was absent and is 9"));
  }
}
