#include "actors/worker/state/kernel_record.h"

#include <doctest/doctest.h>

namespace es::actors {
namespace {

KernelRecord vendor_record(DeterminismLevel level = DeterminismLevel::kD1) {
  return {.level = level,
          .device_type = {"cpu-avx512"},
          .library = "oneDNN 2.6.3",
          .operators = {"conv1 (conv2d): brgconv:avx512_core",
                        "conv1 (conv2d weight gradient): jit:avx512_core"}};
}

KernelRecord canonical_record(DeterminismLevel level) {
  return {.level = level,
          .device_type = {level == DeterminismLevel::kD2 ? "" : "cpu-scalar"},
          .library = {},
          .operators = {}};
}

// "" if the engine may continue.
std::string refusal(const std::optional<KernelRecord>& saved, const KernelRecord& present) {
  const Status status = check_kernels(saved, present, {}, "/c");
  if (!status.ok()) CHECK(status.error().kind == ErrorKind::kRefused);
  return status.ok() ? "" : status.error().message;
}

void check_names(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " should be in: ", text);
}

}  // namespace

TEST_SUITE("actors/worker/state/kernel_record") {
  TEST_CASE("a record is read back from its text") {
    for (const KernelRecord& record : {vendor_record(), canonical_record(DeterminismLevel::kD0),
                                       canonical_record(DeterminismLevel::kD2)}) {
      const auto back = decode_kernel_record(encode(record), "/c");
      REQUIRE(back.ok());
      CHECK(*back == record);
    }
    CHECK(encode(vendor_record()) ==
          "level D1\n"
          "device_type cpu-avx512\n"
          "library oneDNN 2.6.3\n"
          "operator conv1 (conv2d): brgconv:avx512_core\n"
          "operator conv1 (conv2d weight gradient): jit:avx512_core\n");
    CHECK(encode(canonical_record(DeterminismLevel::kD2)) == "level D2\n");
  }

  TEST_CASE("a text in another form is refused") {
    const std::string good = encode(vendor_record());
    for (const std::string& text :
         {std::string(), std::string("level D3\n"), std::string("level D2"),
          std::string("level D1\n"), std::string("level D2\ndevice_type cpu-avx2\n"),
          good + "colour red\n", "\n" + good, good.substr(0, good.size() - 1),
          good.substr(good.find('\n') + 1)}) {
      INFO(text);
      const auto record = decode_kernel_record(text, "/c");
      REQUIRE_FALSE(record.ok());
      CHECK(record.error().kind == ErrorKind::kUsage);
      CHECK(record.error().message.starts_with("/c: "));
    }
  }

  TEST_CASE("a job continues with equal kernels, at D0 and D1") {
    for (const auto saved : {DeterminismLevel::kD0, DeterminismLevel::kD1})
      for (const auto present : {DeterminismLevel::kD0, DeterminismLevel::kD1}) {
        CHECK(refusal(vendor_record(saved), vendor_record(present)).empty());
        CHECK(refusal(canonical_record(saved), canonical_record(present)).empty());
      }
  }

  TEST_CASE("another device type, library version or algorithm is refused, naming both") {
    KernelRecord avx2 = vendor_record(), newer = vendor_record(), other = vendor_record();
    avx2.device_type = {"cpu-avx2"};
    newer.library = "oneDNN 3.0.0";
    other.operators[1] = "conv1 (conv2d weight gradient): brgconv:avx512_core";
    check_names(
        refusal(vendor_record(), avx2),
        {"/c: ", "oneDNN 2.6.3 on cpu-avx512", "oneDNN 2.6.3 on cpu-avx2", "level D1", "level D2"});
    check_names(refusal(vendor_record(), newer), {"oneDNN 2.6.3", "oneDNN 3.0.0"});
    check_names(refusal(vendor_record(), other),
                {vendor_record().operators[1], other.operators[1]});
    check_names(refusal(vendor_record(DeterminismLevel::kD0), avx2), {"cpu-avx512", "cpu-avx2"});
  }

  TEST_CASE("an additional or missing operator is refused, and so are vendor kernels after none") {
    KernelRecord fewer = vendor_record();
    fewer.operators.pop_back();
    check_names(refusal(vendor_record(), fewer),
                {vendor_record().operators[1], "no further operator"});
    check_names(refusal(fewer, vendor_record()),
                {vendor_record().operators[1], "no further operator"});
    const KernelRecord none = canonical_record(DeterminismLevel::kD1);
    check_names(refusal(none, vendor_record()),
                {"canonical kernels on cpu-scalar", "oneDNN 2.6.3 on cpu-avx512"});
    check_names(refusal(vendor_record(), none),
                {"canonical kernels on cpu-scalar", "oneDNN 2.6.3 on cpu-avx512"});
  }

  TEST_CASE("canonical kernels are the same on all device types") {
    KernelRecord avx2 = canonical_record(DeterminismLevel::kD1);
    avx2.device_type = {"cpu-avx2"};
    CHECK(refusal(canonical_record(DeterminismLevel::kD1), avx2).empty());
  }

  TEST_CASE("a job recovers across a change of device type that its own stages make") {
    KernelRecord avx2 = vendor_record(), newer = vendor_record();
    avx2.device_type = {"cpu-avx2"};
    newer.library = "oneDNN 3.0.0";
    const auto continues = [](const KernelRecord& saved, const KernelRecord& present,
                              const char* stages) {
      return check_kernels(saved, present, parse_stages(stages).value(), "/c").ok();
    };
    const char* both = "cpu-avx512:2@6,cpu-avx2:1@6";
    CHECK(continues(vendor_record(), avx2, both));
    CHECK_FALSE(continues(vendor_record(), avx2, "cpu-avx2:1@6"));
    CHECK_FALSE(continues(vendor_record(), avx2, "cpu-scalar:2@6,cpu-avx2:1@6"));
    CHECK_FALSE(continues(vendor_record(), newer, both));
  }

  TEST_CASE("without a record only D2 continues") {
    check_names(refusal(std::nullopt, vendor_record()), {"/c: does not say", "level D1"});
    CHECK_FALSE(refusal(std::nullopt, canonical_record(DeterminismLevel::kD0)).empty());
    CHECK(refusal(std::nullopt, canonical_record(DeterminismLevel::kD2)).empty());
    const DeterminismLevel d1 = DeterminismLevel::kD1, d2 = DeterminismLevel::kD2;
    CHECK_FALSE(check_device_types(std::nullopt, d1, {}, "/c").ok());
    CHECK(check_device_types(std::nullopt, d2, {}, "/c").ok());
  }

  TEST_CASE("a change of level is the decision of the user: D2 continues from and to every level") {
    const KernelRecord d2 = canonical_record(DeterminismLevel::kD2);
    for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1}) {
      CHECK(refusal(vendor_record(level), d2).empty());
      CHECK(refusal(d2, vendor_record(level)).empty());
    }
  }

  TEST_CASE("a first placement on other device types is refused before any process starts") {
    const DeviceType avx512{"cpu-avx512"}, avx2{"cpu-avx2"};
    const auto kind = [](const Status& status) {
      return status.ok() ? "ok" : status.error().kind == ErrorKind::kRefused ? "refused" : "other";
    };
    const auto check = [&](const KernelRecord& saved, DeterminismLevel level,
                           const std::vector<DeviceType>& types) {
      return std::string(kind(check_device_types(saved, level, types, "/c")));
    };
    CHECK(check(vendor_record(), DeterminismLevel::kD1, {avx2}) == "refused");
    CHECK(check(vendor_record(), DeterminismLevel::kD1, {avx2, avx512}) == "ok");
    CHECK(check(vendor_record(), DeterminismLevel::kD1, {}) == "ok");
    CHECK(check(vendor_record(), DeterminismLevel::kD2, {avx2}) == "ok");
    CHECK(check(canonical_record(DeterminismLevel::kD1), DeterminismLevel::kD1, {avx2}) == "ok");
    check_names(
        check_device_types(vendor_record(), DeterminismLevel::kD1, {avx2}, "/c").error().message,
        {"/c: ", "oneDNN 2.6.3 on cpu-avx512", "cpu-avx2", "level D2"});
  }
}

}  // namespace es::actors
