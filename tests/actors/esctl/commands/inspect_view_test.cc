#include "actors/esctl/commands/inspect_view.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace es::actors::esctl {
namespace {

Inspection inspection(const gpu::D2Verdict& verdict) {
  gpu::EngineDescription engine;
  engine.model = "small_cnn";
  engine.kernel_class = "cpu-scalar";
  return {.spec = {},
          .layout = {},
          .engines = {engine},
          .cuda = {},
          .of_job = true,
          .d2 = D2Cost{.device_type = "cpu-avx512", .verdict = verdict}};
}

const gpu::D2Verdict kDear{.vendor_ops = {"conv1 (conv2d): brgconv:avx512_core",
                                          "conv1 (conv2d weight gradient): jit:avx512_core"},
                           .d1_time = gpu::StepTime(0.004),
                           .d2_time = gpu::StepTime(0.0045)};

}  // namespace

TEST_SUITE("actors/esctl/inspect_view") {
  TEST_CASE("the verdict on D2 names its cost and the operators that depend on the hardware") {
    CHECK(inspection_text(inspection(kDear))
              .ends_with("\nD2 costs 12.5 % of a local step on cpu-avx512: 4.50 ms, D1 4.00 ms. D1 "
                         "runs these with kernels whose bits depend on the hardware:\n"
                         "  conv1 (conv2d): brgconv:avx512_core\n"
                         "  conv1 (conv2d weight gradient): jit:avx512_core\n"));
  }

  TEST_CASE("where D1 uses no vendor kernel, D2 costs nothing") {
    CHECK(inspection_text(inspection({}))
              .ends_with("\nD2 costs nothing: D1 uses no vendor kernel on cpu-avx512\n"));
  }

  TEST_CASE(
      "an operator that the vendor library refuses is reported, whether it runs others or none") {
    gpu::D2Verdict verdict;
    verdict.vendor_refusals = {"conv1 (conv2d): oneDNN: no, so the canonical kernel runs"};
    const std::string said =
        "The vendor library refuses these:\n  conv1 (conv2d): oneDNN: no, so the canonical kernel "
        "runs\n";
    CHECK(inspection_text(inspection(verdict)).ends_with("on cpu-avx512\n" + said));
    CHECK(nlohmann::json::parse(inspection_json(inspection(verdict)))
              .at("d2")
              .at("vendor_refusals") == verdict.vendor_refusals);
    verdict.vendor_ops = kDear.vendor_ops;
    CHECK(inspection_text(inspection(verdict)).ends_with("avx512_core\n" + said));
  }

  TEST_CASE("fields of the job that are not the default are listed, with what they decide") {
    Inspection job = inspection({});
    job.spec.max_p = 3;
    job.spec.resources.threads = 2;
    const std::string text = inspection_text(job);
    CHECK(text.find("\nFIELD              VALUE  DECIDES THE BITS\n"
                    "max_p              3      yes\n"
                    "resources.threads  2      no\n") != std::string::npos);
    const auto fields = nlohmann::json::parse(inspection_json(job)).at("fields");
    CHECK(fields.size() == 2);
    CHECK(fields[0] == nlohmann::json{{"key", "max_p"}, {"value", 3}, {"decides_bits", true}});
    job.of_job = false;  // a model file
    job.d2.reset();
    CHECK(inspection_text(job).find("DECIDES") == std::string::npos);
  }

  TEST_CASE("a job whose cost of D2 was not measured has its fields, and no cost") {
    Inspection job = inspection(kDear);
    job.spec.max_p = 3;
    job.d2.reset();
    CHECK(inspection_text(job).find("D2 costs") == std::string::npos);
    CHECK(inspection_text(job).find("DECIDES") != std::string::npos);
    const auto json = nlohmann::json::parse(inspection_json(job));
    CHECK(json.at("d2").is_null());
    CHECK(json.at("fields").size() == 1);
  }

  TEST_CASE("the verdict is available to scripts as numbers") {
    const auto json = nlohmann::json::parse(inspection_json(inspection(kDear))).at("d2");
    CHECK(json.at("device_type") == "cpu-avx512");
    CHECK(json.at("vendor_operators") == kDear.vendor_ops);
    CHECK(json.at("d1_seconds") == 0.004);
    CHECK(json.at("d2_seconds") == 0.0045);
    CHECK(json.at("cost") == kDear.cost());
    const auto none = nlohmann::json::parse(inspection_json(inspection({}))).at("d2");
    CHECK(none.at("vendor_operators").empty());
    CHECK(none.at("cost") == 0.0);
  }
}

}  // namespace es::actors::esctl
