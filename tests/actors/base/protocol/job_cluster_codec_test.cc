#include "actors/base/protocol/wire/job_cluster_codec.h"

#include <doctest/doctest.h>

namespace es::actors::protocol {
namespace {

const JobId kJob = "job-1";

DeviceSet set(const char* text) {
  return *parse_device_set(text);
}

template <class Value>
void check_back(const Value& value) {
  const auto message = message_of(value);
  CHECK(value_of(*message.view()) == value);
}

template <class Value>
void check_back_from_job(const Value& value) {
  const auto message = message_of(kJob, value);
  CHECK(message.envelope().job == kJob);
  CHECK(value_of(*message.view()) == value);
}

template <class Value>
void check_demand(const Value& value) {
  const auto message = message_of(kJob, value);
  CHECK(message.envelope().job == kJob);
  CHECK(std::get<Value>(value_of(*message.view())) == value);
}

}  // namespace

TEST_SUITE("actors/base/protocol/job_cluster_codec") {
  TEST_CASE("what the cluster scheduler tells a job comes back as it was") {
    check_back(Allocation{});
    check_back(Allocation{3, 2, {{"n", {"a"}, 0}, {"m", {"b"}, 7}}, true});
    check_back(Allocation{.sequence = 4,
                          .devices = {{"n", {"a"}, 0}, {"m", {"b"}, 7}},
                          .prices_per_hour = {0.35, 0}});
    check_back(DemandRefused{"needs a:2, the cluster has a:1"});
  }

  TEST_CASE("what a job tells the cluster scheduler comes back as it was, with its id") {
    check_demand(Demand{});
    check_demand(Demand{.exact = DeviceSet()});
    check_demand(Demand{.exact = set("a:2+b:1")});
    check_demand(
        Demand{.proposals = {{{"a"}, 2, 1.5}, {{"b"}, 1, 0.5}},
               .sequence = 9,
               .progress = JobProgress{.total_steps = 400,
                                       .remaining_steps = 300,
                                       .steps_per_second = 12.5,
                                       .rescale_seconds = 0.25,
                                       .started = true,
                                       .adopted = false,
                                       .capabilities = {{{"a"}, 10, true}, {{"b"}, 5, false}}}});
    check_demand(Demand{.progress = JobProgress{.budget_left = 2.5}});
    check_demand(Demand{.progress = JobProgress()});  // infinite numbers of steps, and budget
    check_demand(JobRefusals{});
    check_demand(JobRefusals{{{set("a:1"), {{"a"}, {"b"}}, {}}, {set("b:2"), {{"b"}}, {}}}});
    check_demand(BoundToType{{"cpu-avx2"}});
    check_back_from_job(DeviceReleased{{"n", {"a"}, 3}});
    check_back_from_job(DeviceSuspected{{"n", {"a"}, 3}, "another device disagrees"});
    check_back_from_job(DevicesKept{"the disk is full"});
    check_back_from_job(DeviceFailed{{"n", {"a"}, 3}, "why", DeviceFailed::Fault::kLink, "m"});
    check_back_from_job(DevicesWork{{{"n", {"a"}, 3}, {"m", {"b"}, 0}}});
    CHECK(message_of(kJob, JobEnded{}).envelope().job == kJob);
  }

  TEST_CASE("the capabilities before a refused grant stay with the job") {
    const auto message = message_of(kJob, JobRefusals{{{set("a:1"), {{"a"}}, {{{"a"}, 3.0}}}}});
    const auto value = std::get<JobRefusals>(value_of(*message.view()));
    CHECK(value.refusals.at(0).capabilities.empty());
  }

  TEST_CASE("what a job and its companion tell each other comes back as it was") {
    check_back_from_job(PlanQuery{set("a:2"), set("a:2+b:1"), 70, 0.5, {{{"a"}, 10, true}}});
    check_back_from_job(CapabilityReport{{{{"a"}, 10.5, true}}});
    check_back(PlanAnswer{{{{"b"}, 1, 1.25}}, {{{"b"}, 7, false}}});
    const PlanListQuery query{set("a:2"), {{{"a"}, 10, true}}};
    const auto message = message_of(query, 17);
    CHECK(message.envelope().request == 17);
    CHECK(value_of(*message.view()) == query);
  }
}

}  // namespace es::actors::protocol
