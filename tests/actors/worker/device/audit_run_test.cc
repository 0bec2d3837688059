#include "actors/worker/device/audit_run.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "actors/worker/device/device_loss.h"

namespace es::actors::worker {
namespace {

float struck(GradientFault& fault, Version step, VirtualRank rank) {
  float value = 1.0F;
  fault.strike(step, rank, {&value, 1});
  return value;
}

}  // namespace

TEST_SUITE("actors/worker/audit_run") {
  TEST_CASE("a temporary fault strikes once, in its step and rank") {
    auto fault = parse_fault("flip-gradient:n/cpu-avx2:0:7:2", "n/cpu-avx2:0").value();
    REQUIRE(fault.has_value());
    CHECK(struck(*fault, 6, 2) == 1.0F);
    CHECK(struck(*fault, 7, 1) == 1.0F);
    CHECK(std::popcount(std::bit_cast<std::uint32_t>(struck(*fault, 7, 2)) ^
                        std::bit_cast<std::uint32_t>(1.0F)) == 1);
    CHECK(struck(*fault, 7, 2) == 1.0F);
  }

  TEST_CASE("a permanent fault strikes every rank from its step on, on its device only") {
    const char* text = "flip-gradient:n/a:1:3:0,flip-gradient:n/a:0:7+:*";
    auto fault = parse_fault(text, "n/a:0").value();
    REQUIRE(fault.has_value());
    CHECK(struck(*fault, 6, 0) == 1.0F);
    CHECK(struck(*fault, 7, 0) != 1.0F);
    CHECK(struck(*fault, 9, 3) != 1.0F);
    CHECK(parse_fault(text, "n/a:1").value()->step == 3);
    CHECK_FALSE(parse_fault(text, "n/a:2").value().has_value());
    CHECK_FALSE(parse_fault("", "n/a:2").value().has_value());
  }

  TEST_CASE("a fault flips a bit of the first number that is not zero") {
    auto fault = parse_fault("flip-gradient:*:7:*", "n/a:0").value();
    REQUIRE(fault.has_value());
    std::vector<float> values{0.0F, -0.0F, 2.0F, 3.0F};
    fault->strike(7, 1, values);
    CHECK(values[0] == 0.0F);
    CHECK(values[2] != 2.0F);
    CHECK(values[3] == 3.0F);
  }

  TEST_CASE("a fault with a token strikes only in the process that can remove the token") {
    const auto token =
        std::filesystem::temp_directory_path() / ("es-fault-token-" + std::to_string(::getpid()));
    std::ofstream(token).put(' ');
    auto first = parse_fault("flip-gradient:*:7:*", "n/a:0").value();
    auto second = first;
    first->token = second->token = token;
    CHECK(struck(*first, 7, 0) != 1.0F);
    CHECK_FALSE(std::filesystem::exists(token));
    CHECK(struck(*second, 7, 0) == 1.0F);
  }

  TEST_CASE("a fault in another form is an error that lists the allowed forms") {
    for (const char* text :
         {"flip", "flip-gradient:7:2", "flip-gradient:n/a:0:x:2", "flip-gradient:n/a:0:7:",
          "flip-gradient:n/a:0:7:2,"
          "burn:n/a:0:7:2"}) {
      CAPTURE(text);
      const auto parsed = parse_fault(text, "n/a:0");
      REQUIRE_FALSE(parsed.ok());
      CHECK(parsed.error().message.find("allowed is flip-gradient:") != std::string::npos);
    }
  }

  TEST_CASE("a device is lost in the step that the fault names, and another device is not") {
    CHECK(parse_device_loss("n/cuda-host:1:12", "n/cuda-host:1").value() == Version{12});
    CHECK_FALSE(parse_device_loss("n/cuda-host:1:12", "n/cuda-host:0").value().has_value());
    CHECK_FALSE(parse_device_loss("", "n/cuda-host:1").value().has_value());
    for (const char* text : {"12", "n/cuda-host:", "n/cuda-host:1:12x", "n/cuda-host:1:-1"}) {
      CAPTURE(text);
      const auto parsed = parse_device_loss(text, "n/cuda-host:1");
      REQUIRE_FALSE(parsed.ok());
      CHECK(parsed.error().message.find("allowed is NODE/TYPE:INDEX:STEP") != std::string::npos);
    }
  }

  TEST_CASE("one bit of the gradient or of the next context changes the digest") {
    std::vector<float> gradient(32, 0.5F);
    gpu::EstContext next{.rank = 1, .version = 3, .cursor = {}, .stats = {1.0F}};
    const auto digest = [&] {
      LocalStepDigest d;
      for (const std::int64_t begin : {0, 16}) {
        gpu::Bucket bucket{};
        bucket.begin = begin;
        bucket.end = begin + 16;
        d.add_bucket(gradient.data() + bucket.begin, bucket);
      }
      return d.finish(next);
    };
    const Digest before = digest();
    CHECK(digest() == before);
    gradient[31] = std::nextafter(0.5F, 1.0F);
    CHECK(digest() != before);
    gradient[31] = 0.5F;
    next.stats[0] = std::nextafter(1.0F, 2.0F);
    CHECK(digest() != before);
  }
}

}  // namespace es::actors::worker
