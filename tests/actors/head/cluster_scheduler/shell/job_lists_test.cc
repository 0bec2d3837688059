#include "actors/head/cluster_scheduler/shell/job_lists.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/actors/head/cluster_scheduler/shell/decisions_bench.h"

namespace es::actors {
namespace {

Msg<wire::JobDetails> details(const JobId& job, const std::string& state) {
  return Msg<wire::JobDetails>::build({}, [&](wire::JobDetails::Builder b) {
    auto info = b.initInfo();
    info.setId(job);
    info.setName(job);
    info.setState(state);
    info.initEvaluations(3)[2].setVersion(30);
  });
}

// The jobs answer when the test lets them.
struct Bench {
  struct Question {
    JobId job;
    std::function<void(const Msg<wire::JobDetails>&)> answer;
    std::function<void()> fail;
  };
  JobTable jobs{""};
  test::DecisionsBench head;
  std::vector<Outbound> sent;
  Replies replies{[this](Outbound frame) { sent.push_back(std::move(frame)); }};
  std::vector<Question> asked;
  std::map<JobId, std::shared_ptr<const ListedJob>> ends;
  JobLists lists{jobs,
                 head.decisions.core(),
                 replies,
                 {.describe =
                      [this](const JobId& job, auto, auto answer, auto fail) {
                        asked.push_back({job, std::move(answer), std::move(fail)});
                      },
                  .end_of = [this](const JobId& job) { return ends[job]; },
                  .asked = [](const JobId&, const auto&) {},
                  .warning = [] { return std::string(); },
                  .unix_ms = [] { return std::uint64_t{0}; }}};

  void list(const PeerId& client, std::uint64_t number) {
    lists.list(
        {.from = client,
         .frame = Msg<wire::ListJobs>::build({.request = number}, [](wire::ListJobs::Builder) {
                  }).frame()});
  }
  void answer(std::size_t i, const std::string& state = "running") {
    asked.at(i).answer(details(asked.at(i).job, state));
  }
  std::vector<std::string> listed(std::size_t i) {
    std::vector<std::string> names;
    const auto list = Msg<wire::JobList>::from_frame(sent.at(i).frame);
    REQUIRE(list.ok());
    auto view = list->view();
    for (const auto job : view->getJobs()) names.emplace_back(job.getId().cStr());
    return names;
  }
};

using Names = std::vector<std::string>;

TEST_SUITE("cluster_scheduler/job_lists") {
  TEST_CASE("a list without jobs is answered at once") {
    Bench bench;
    bench.list("client/1", 7);
    REQUIRE(bench.sent.size() == 1);
    CHECK(bench.sent[0].to == "client/1");
    CHECK(bench.sent[0].frame->envelope.request == 7);
    CHECK(bench.listed(0).empty());
  }

  TEST_CASE("a listed job has its last evaluation only") {
    Bench bench;
    bench.jobs.add_live("a", "", "");
    bench.list("client/1", 7);
    bench.answer(0);
    const auto list = Msg<wire::JobList>::from_frame(bench.sent.at(0).frame);
    REQUIRE(list.ok());
    auto view = list->view();
    const auto evaluations = view->getJobs()[0].getEvaluations();
    REQUIRE(evaluations.size() == 1);
    CHECK(evaluations[0].getVersion() == 30);
  }

  TEST_CASE("jobs are in the order of submission, in whatever order they answer") {
    Bench bench;
    for (const char* job : {"c", "a", "b"}) bench.jobs.add_live(job, "", "");
    bench.list("client/1", 1);
    REQUIRE(bench.asked.size() == 3);
    bench.answer(2);
    bench.answer(0);
    CHECK(bench.sent.empty());
    bench.answer(1);
    REQUIRE(bench.sent.size() == 1);
    CHECK(bench.listed(0) == Names{"c", "a", "b"});
  }

  TEST_CASE("a job whose end is known is not asked") {
    Bench bench;
    bench.jobs.add_over("a", "", "");
    bench.ends["a"] = listed(details("a", "finished"));
    bench.list("client/1", 1);
    CHECK(bench.asked.empty());
    CHECK(bench.listed(0) == Names{"a"});
  }

  TEST_CASE("clients that ask meanwhile get the next list, together") {
    Bench bench;
    bench.jobs.add_live("a", "", "");
    bench.list("client/1", 1);
    bench.list("client/2", 2);
    bench.list("client/3", 3);
    CHECK(bench.asked.size() == 1);
    bench.answer(0);
    REQUIRE(bench.sent.size() == 1);
    REQUIRE(bench.asked.size() == 2);
    bench.answer(1);
    REQUIRE(bench.sent.size() == 3);
    CHECK(bench.sent[1].to == "client/2");
    CHECK(bench.sent[2].to == "client/3");
    CHECK(bench.sent[2].frame->envelope.request == 3);
  }

  TEST_CASE("a job that does not answer refuses the list once, and the next list is made") {
    Bench bench;
    for (const char* job : {"a", "b", "c"}) bench.jobs.add_live(job, "", "");
    bench.list("client/1", 1);
    bench.list("client/2", 2);
    bench.asked[0].fail();
    REQUIRE(bench.sent.size() == 1);
    CHECK(bench.sent[0].frame->envelope.type == MessageType::kRefusal);
    CHECK(bench.asked.size() == 6);
    bench.asked[1].fail();
    bench.answer(2);
    CHECK(bench.sent.size() == 1);
  }

  TEST_CASE("a job that is removed meanwhile is not in the list") {
    Bench bench;
    bench.jobs.add_live("a", "", "");
    bench.jobs.add_over("b", "", "");
    bench.list("client/1", 1);
    bench.answer(0);
    bench.jobs.forget("b");
    bench.asked[1].fail();
    REQUIRE(bench.sent.size() == 1);
    CHECK(bench.listed(0) == Names{"a"});
  }
}

}  // namespace
}  // namespace es::actors
