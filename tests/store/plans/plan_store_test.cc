#include "store/plans/plan_store.h"

#include <doctest/doctest.h>

#include <limits>

#include "store/kv/memory_key_value_store.h"
#include "store/kv/record_codec.h"
#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

PlanListRecord sample() {
  return {"cpu-avx2:2+cpu-avx512:1",
          false,
          {{{{{"cpu-avx2"}, 2, 1}, {{"cpu-avx512"}, 1, 2}}, 0.25, 12.5}, {{}, 0.0, 0.0}}};
}

}  // namespace

TEST_SUITE("store/plans/plan_store") {
  TEST_CASE("plans are stored by model and number of ESTs, in their order") {
    MemoryKeyValueStore store;
    PlanStore plans(store);
    REQUIRE(plans.save_plans("resnet18/w16/D2", 4, sample()).ok());
    CHECK(**plans.load_plans("resnet18/w16/D2", 4) == sample());
    CHECK_FALSE(plans.load_plans("resnet18/w16/D2", 5)->has_value());
    CHECK_FALSE(plans.load_plans("resnet18/w16/D", 4)->has_value());
    REQUIRE(plans.save_plans("resnet18/w16/D2", 4, {}).ok());
    CHECK(**plans.load_plans("resnet18/w16/D2", 4) == PlanListRecord());
  }

  TEST_CASE("capabilities are stored by model, batch size and device type") {
    MemoryKeyValueStore store;
    PlanStore plans(store);
    const CapabilityRecord fast{{"cpu-avx512"}, 31.25, 4};
    const CapabilityRecord slow{{"cpu-avx2"}, 17.0, 1};
    REQUIRE(plans.save_capability("cnn", 32, {{"cpu-avx512"}, 1.0, 1}).ok());
    REQUIRE(plans.save_capability("cnn", 32, fast).ok());
    REQUIRE(plans.save_capability("cnn", 32, slow).ok());
    REQUIRE(plans.save_capability("cnn", 64, {{"cpu-avx2"}, 9.0, 1}).ok());
    CHECK(*plans.load_capabilities("cnn", 32) == std::vector<CapabilityRecord>{slow, fast});
    CHECK(plans.load_capabilities("cnn", 16)->empty());
  }

  TEST_CASE("communication is stored by model and batch size, and damage is an error") {
    MemoryKeyValueStore store;
    PlanStore plans(store);
    const std::vector<SyncRecord> points{{1, 0.0}, {4, 0.25}, {8, 0.5}};
    CHECK(plans.load_sync("cnn", 32)->empty());
    REQUIRE(plans.save_sync("cnn", 32, {{2, 1.0}}).ok());
    REQUIRE(plans.save_sync("cnn", 32, points).ok());
    CHECK(*plans.load_sync("cnn", 32) == points);
    CHECK(plans.load_sync("cnn", 16)->empty());
    CHECK_FALSE(decode_sync("garbage", "sync").ok());
  }

  TEST_CASE("plans have the bytes that earlier programs wrote") {
    RecordWriter out(2);
    out.text("inputs");
    out.u32(1);
    out.u32(1);  // a plan with one part
    out.u32(1);
    out.text("v100");
    out.u32(2);
    out.u32(4);
    out.f64(0.5);
    out.f64(31.25);
    const PlanListRecord list{"inputs", true, {{{{{"v100"}, 2, 4}}, 0.5, 31.25}}};
    const std::string bytes = out.take();
    CHECK(encode_plans(list) == bytes);
    CHECK(*decode_plans(bytes, "plans") == list);
    RecordWriter speed(1);
    speed.f64(17.0);
    speed.u64(3);
    CHECK(*decode_capability(speed.take(), "v100", "cnn") == CapabilityRecord{{"v100"}, 17.0, 3});
    RecordWriter sync(1);
    sync.u32(1);
    sync.u32(4);
    sync.f64(0.25);
    CHECK(*decode_sync(sync.take(), "sync") == std::vector<SyncRecord>{{4, 0.25}});
  }

  TEST_CASE("numbers that cannot be rates are refused") {
    for (const double bad : {-1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      auto plans = sample();
      plans.plans[0].waste = bad;
      CHECK_FALSE(decode_plans(encode_plans(plans), "plans").ok());
      plans = sample();
      plans.plans[1].throughput_local_steps_per_s = bad;
      CHECK_FALSE(decode_plans(encode_plans(plans), "plans").ok());
    }
  }

  TEST_CASE("ten thousand mutated records give an error or plans") {
    std::mt19937_64 random(seed("plan mutations"));
    const std::string bytes = encode_plans(sample());
    for (int round = 0; round < 10'000; ++round) {
      const std::string changed = mutate(bytes, random);
      const auto plans = decode_plans(changed, "plans");
      if (plans.ok()) REQUIRE(encode_plans(*plans) == changed);
    }
  }
}
