#include "proto/base/device.h"

#include <doctest/doctest.h>

using namespace es;

TEST_SUITE("proto/base/device") {
  TEST_CASE("a placement is read, sorted by type, and written back in one form") {
    const auto set = parse_device_set("cpu-scalar:1 + cpu-avx2:1+cpu-scalar:2");
    REQUIRE(set.ok());
    CHECK(set->text() == "cpu-avx2:1+cpu-scalar:3");
    CHECK(set->total() == 4);
    CHECK(set->count_of({"cpu-scalar"}) == 3);
    CHECK(set->count_of({"cpu-avx512"}) == 0);
  }

  TEST_CASE("stages are read in order with their step counts") {
    const auto stages = parse_stages("cpu-avx512:4@20,cpu-avx2:2@20,cpu-scalar:1+cpu-avx2:1@7");
    REQUIRE(stages.ok());
    REQUIRE(stages->size() == 3);
    CHECK((*stages)[2].steps == 7);
    CHECK((*stages)[2].devices.total() == 2);
    CHECK(stages_text(*stages) == "cpu-avx512:4@20,cpu-avx2:2@20,cpu-avx2:1+cpu-scalar:1@7");
  }

  TEST_CASE("a malformed placement or stage is refused with the offending part and the form") {
    for (const char* text : {"", "cpu-avx2", "cpu-avx2:0", "cpu-avx2:-1", "cpu-avx2:1x", ":2",
                             "cpu-avx2:1+", "CPU:1", "cpu-avx2:99999999999999999999"}) {
      CAPTURE(text);
      const auto set = parse_device_set(text);
      REQUIRE(!set.ok());
      CHECK(set.error().kind == ErrorKind::kUsage);
      CHECK(set.error().message.find("TYPE:COUNT") != std::string::npos);
    }
    for (const char* text : {"cpu-avx2:1", "cpu-avx2:1@", "cpu-avx2:1@0", "@5", "cpu-avx2:1@5,"}) {
      CAPTURE(text);
      REQUIRE(!parse_stages(text).ok());
      CHECK(parse_stages(text).error().kind == ErrorKind::kUsage);
    }
  }

  TEST_CASE("removing what was added leaves the set as it was") {
    DeviceSet set = *parse_device_set("cpu-avx2:2");
    set.add({"cpu-scalar"}, 3);
    CHECK(set.contains(*parse_device_set("cpu-avx2:1+cpu-scalar:3")));
    CHECK_FALSE(set.contains(*parse_device_set("cpu-avx512:1")));
    set.remove({"cpu-scalar"}, 3);
    CHECK(set == *parse_device_set("cpu-avx2:2"));
  }

  TEST_CASE("an unknown CPU class is refused with the list of classes") {
    const auto c = parse_cpu_class("cpu-avx1024");
    REQUIRE(!c.ok());
    CHECK(c.error().message.find("cpu-scalar, cpu-avx2, cpu-avx512") != std::string::npos);
    CHECK(*parse_cpu_class("cpu-avx2") == CpuClass::kAvx2);
  }

  TEST_CASE("a type in upper case is refused, and the error shows the right spelling") {
    const auto set = parse_device_set("cpu-avx2:1+CPU-Scalar:2");
    REQUIRE_FALSE(set.ok());
    CHECK(set.error().message.find("written in lower case: cpu-scalar") != std::string::npos);
    CHECK(parse_device_set("v100=4").error().message.find("lower case") == std::string::npos);
  }
}
