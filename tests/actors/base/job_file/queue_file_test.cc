#include "actors/base/job_file/queue_file.h"

#include <doctest/doctest.h>

#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

std::string error_of(const std::string& text) {
  const auto queues = parse_queues(text, "q.toml");
  return queues ? "" : queues.error().message;
}

}  // namespace

TEST_SUITE("actors/base/job_file/queue_file") {
  TEST_CASE("a file of queues gives a tree with all fields") {
    const auto queues = parse_queues(R"(
[queue.research]
guarantee = { cpu-avx2 = 4, cpu-avx512 = 2 }
[queue.nlp]
parent = "research"
guarantee = { cpu-avx2 = 3 }
borrow = { cpu-avx2 = 2, cpu-scalar = 0 }
weight = 2.5
tier = 3
tenants = ["speech", "text"]
)",
                                     "q.toml");
    REQUIRE(queues.ok());
    REQUIRE(queues->size() == 2);
    const scheduler::Queue* nlp = scheduler::find_queue(*queues, "nlp");
    REQUIRE(nlp != nullptr);
    CHECK(nlp->parent == "research");
    CHECK(nlp->guarantee == *parse_device_set("cpu-avx2:3"));
    CHECK(nlp->borrow ==
          std::map<DeviceType, std::uint32_t>{{{"cpu-avx2"}, 2}, {{"cpu-scalar"}, 0}});
    CHECK(nlp->weight == 2.5);
    CHECK(nlp->tier == 3);
    CHECK(nlp->tenants == std::vector<std::string>{"speech", "text"});
    CHECK(scheduler::find_queue(*queues, "research")->weight == 1);
  }

  TEST_CASE("an error names the file, the queue, the field, the value and what is allowed") {
    CHECK(error_of("[queue.a]\nguarantee = { x = -1 }") ==
          "q.toml: queue.a.guarantee = { x = -1 }: allowed is a table of device types, { TYPE = "
          "COUNT }, with counts from 0 to 1000000");
    CHECK(error_of("[queue.a]\nwieght = 1") ==
          "q.toml: queue.a.wieght: no such key; allowed here: parent, guarantee, borrow, tier, "
          "weight, "
          "tenants");
    CHECK(error_of("[queue.a]\nweight = \"x\"").find("queue.a.weight = 'x': allowed is a number") !=
          std::string::npos);
    CHECK(error_of("[queue.a]\ntier = 101") ==
          "q.toml: queue.a.tier = 101: allowed is a whole number from 0 to 100");
    CHECK(error_of("[queue.a]\nparent = \"b\"") ==
          "q.toml: queue \"a\": parent = \"b\": there is no such queue");
    CHECK(error_of("[queue.a]\ntenants = []").find("a list of names") != std::string::npos);
    CHECK(error_of("x = 1") == "q.toml: x: allowed here are only tables [queue.NAME]");
    CHECK(error_of("").find("it has no queues") != std::string::npos);
    CHECK(error_of("[queue.a").find("q.toml: line 1") != std::string::npos);
    CHECK(read_queues("/nowhere/q.toml", {}).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a quota is a queue with the name of its tenant and weight 0, beside those of a file") {
    const es::test::TempDirectory directory;
    es::test::write_file(directory / "q.toml", "[queue.research]\nguarantee = { a = 1 }\n");
    const std::string file = (directory / "q.toml").string();
    const auto queues = read_queues(file, {"vision=a:2+b:1"});
    REQUIRE(queues.ok());
    const scheduler::Queue* vision = scheduler::find_queue(*queues, "vision");
    REQUIRE(vision != nullptr);
    CHECK(vision->guarantee == *parse_device_set("a:2+b:1"));
    CHECK(vision->weight == 0);
    CHECK(read_queues("", {"vision"}).error().message ==
          "--quota vision: allowed is TENANT=TYPE:COUNT[+TYPE:COUNT...]");
    CHECK(read_queues("", {"a=x:1", "a=x:2"})
              .error()
              .message.find("there is a queue or a quota of this name already") !=
          std::string::npos);
    CHECK(read_queues("", {})->empty());
  }
}

}  // namespace es::actors
