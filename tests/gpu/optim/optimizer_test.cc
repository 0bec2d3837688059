#include "gpu/optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "gpu/optim/update.h"
#include "tests/support/reference_data.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/optim/optimizer") {
  using namespace es;
  using namespace es::gpu;

  // PyTorch's vectors: a start, six gradients, and the results of each optimizer.
  class Vectors {
   public:
    explicit Vectors(const std::filesystem::path& directory) {
      std::ifstream(directory / "optimizers.json") >> json_;
      std::ifstream bin(directory / "optimizers.bin", std::ios::binary);
      bytes_.assign(std::istreambuf_iterator<char>(bin), {});
    }
    std::vector<float> tensor(const std::string& name) const {
      for (const auto& t : json_["tensors"]) {
        if (t["name"] != name) continue;
        std::vector<float> values(t["nbytes"].get<std::size_t>() / sizeof(float));
        std::memcpy(values.data(), bytes_.data() + t["offset"].get<std::size_t>(), t["nbytes"]);
        return values;
      }
      FAIL("no tensor " << name);
      return {};
    }
    const nlohmann::json& configs() const { return json_["configs"]; }
    std::vector<double> schedule(const std::string& name) const { return json_["schedules"][name]; }

   private:
    nlohmann::json json_;
    std::vector<char> bytes_;
  };

  OptimizerSpec spec_of(const nlohmann::json& config) {
    const std::string name = config["name"];
    OptimizerSpec spec;
    spec.kind = name.starts_with("sgd") ? "sgd" : name.starts_with("adamw") ? "adamw" : "adam";
    spec.learning_rate = config["lr"];
    spec.momentum = config.value("momentum", 0.0);
    spec.nesterov = config.value("nesterov", false);
    spec.weight_decay = config.value("weight_decay", 0.0);
    return spec;
  }

  // Six steps with one EST.
  std::vector<float> train(const Vectors& vectors, Optimizer optimizer, CpuClass cpu_class) {
    std::vector<float> params = vectors.tensor("w0");
    std::vector<std::vector<float>> moments(optimizer.moment_count(),
                                            std::vector<float>(params.size(), 0.0F));
    float* arrays[2] = {};
    for (std::size_t m = 0; m < moments.size(); ++m) arrays[m] = moments[m].data();
    for (Version v = 0; v < 6; ++v) {
      const std::vector<float> grad = vectors.tensor("g" + std::to_string(v));
      optimizer.apply(optimizer.step(v), {0, static_cast<std::int64_t>(params.size())},
                      kernel_table(cpu_class), grad.data(), params.data(), arrays);
    }
    return params;
  }

  TEST_CASE("sgd, adam and adamw agree with PyTorch within the rounding of fp32") {
    const std::filesystem::path directory = test::reference_data("vectors");
    if (directory.empty()) return;
    const Vectors vectors(directory);
    CHECK(vectors.configs().size() == 6);
    for (const auto& config : vectors.configs()) {
      const std::string name = config["name"];
      CAPTURE(name);
      const std::vector<float> expected = vectors.tensor("final." + name);
      const Optimizer optimizer(spec_of(config), {}, 0, 1);
      const std::vector<float> ours = train(vectors, optimizer, CpuClass::kScalar);
      REQUIRE(ours.size() == expected.size());
      double worst = 0.0;
      for (std::size_t i = 0; i < ours.size(); ++i)
        worst = std::max(worst, std::abs(double(ours[i]) - double(expected[i])) /
                                    std::max(1.0, std::abs(double(expected[i]))));
      CHECK(worst < 2e-7);  // Weights and updates are about 1.
      for (const CpuClass c : supported_cpu_classes()) CHECK(train(vectors, optimizer, c) == ours);
    }
  }

  TEST_CASE("the linear schedule is that of PyTorch with a warm-up that begins one step lower") {
    const std::filesystem::path directory = test::reference_data("vectors");
    if (directory.empty()) return;
    const std::vector<double> expected =
        Vectors(directory).schedule("LambdaLR(linear warmup 5 then linear decay to 20)");
    OptimizerSpec spec;
    spec.learning_rate = 0.1;
    ScheduleSpec schedule;
    schedule.kind = "linear";
    schedule.warmup_steps = 5;
    const Optimizer optimizer(spec, schedule, 20, 1);
    for (std::uint64_t t = 0; t < 20; ++t)
      CHECK(optimizer.rate(t) == doctest::Approx(expected[t < 5 ? t + 1 : t]).epsilon(1e-6));
  }

  TEST_CASE("the powers of beta in adam depend on the version only") {
    OptimizerSpec spec;
    spec.kind = "adam";
    Optimizer forward(spec, {}, 0, 1), jumping(spec, {}, 0, 1);
    for (Version v = 0; v < 40; ++v) forward.step(v);
    const AdamStep late = jumping.step(40).groups[0].adam;
    CHECK(late.lr_over_bc1 == forward.step(40).groups[0].adam.lr_over_bc1);
    CHECK(late.rsqrt_bc2 == forward.step(40).groups[0].adam.rsqrt_bc2);
    CHECK(jumping.step(3).groups[0].adam.rsqrt_bc2 ==
          Optimizer(spec, {}, 0, 1).step(3).groups[0].adam.rsqrt_bc2);
    CHECK(jumping.step(3).groups[0].adam.lr_over_bc1 > late.lr_over_bc1);
  }

  TEST_CASE("points of the momentum replace it in sgd, and beta1 with its power in adam") {
    ScheduleSpec schedule;
    schedule.momentum_points = {{0, 0.5}, {2, 0.75}};
    OptimizerSpec spec;
    spec.momentum = 0.9;
    Optimizer sgd(spec, schedule, 0, 1);
    CHECK(sgd.has_velocity());
    CHECK(sgd.step(0).momentum == 0.5F);
    CHECK(sgd.step(1).momentum == 0.625F);
    CHECK(sgd.step(9).momentum == 0.75F);
    CHECK(Optimizer(spec, {}, 0, 1).step(9).momentum == 0.9F);
    spec.kind = "adam";
    Optimizer adam(spec, schedule, 0, 1);
    const AdamStep numbers = adam.step(1).groups[0].adam;
    CHECK(numbers.beta1 == 0.625F);
    CHECK(numbers.one_minus_beta1 == 0.375F);
    // The power of the number of the update, 2, as PyTorch computes it from the beta1 of now.
    CHECK(numbers.lr_over_bc1 == static_cast<float>(0.1F / (1.0 - 0.625 * 0.625)));
  }

  TEST_CASE("the number of moments follows the optimizer") {
    OptimizerSpec spec;
    CHECK(Optimizer(spec, {}, 0, 1).moment_count() == 1);
    spec.momentum = 0.0;
    CHECK(Optimizer(spec, {}, 0, 1).moment_count() == 0);
    spec.kind = "adamw";
    CHECK(Optimizer(spec, {}, 0, 1).moment_count() == 2);
    spec.ema = 0.9;
    CHECK(Optimizer(spec, {}, 0, 1).moment_count() == 3);
  }

  TEST_CASE("the average begins with the first parameters and has the same bits in all classes") {
    for (const char* kind : {"sgd", "adam"})
      for (const double momentum : {0.0, 0.9}) {
        std::vector<std::vector<float>> results;
        for (const CpuClass cpu_class : supported_cpu_classes()) {
          OptimizerSpec spec{.kind = kind, .learning_rate = 0.1, .momentum = momentum, .ema = 0.8};
          Optimizer optimizer(spec, {}, 0, 1);
          constexpr std::size_t kCount = 37;
          std::vector<float> params(kCount, 1.5F), grad(kCount, 0.25F);
          std::vector<std::vector<float>> moments(optimizer.moment_count(),
                                                  std::vector<float>(kCount, 0.0F));
          std::vector<float*> arrays;
          for (auto& moment : moments) arrays.push_back(moment.data());
          float expected = 0.0F;
          for (Version v = 0; v < 5; ++v) {
            optimizer.apply(optimizer.step(v), {0, kCount}, kernel_table(cpu_class), grad.data(),
                            params.data(), arrays.data());
            const float weight = v == 0 ? 1.0F : static_cast<float>(1.0 - 0.8);
            expected = std::fma(weight, params[0] - expected, expected);
            CHECK(moments.back() == std::vector<float>(kCount, expected));
            grad[0] = 0.25F;
          }
          CHECK(expected != params[0]);
          results.push_back(moments.back());
        }
        for (const auto& result : results) CHECK(result == results.front());
      }
  }

  // A model of three parameters in two buckets, and a gradient for it.
  struct Example {
    Example() {
      for (const std::int64_t count : {5000, 7, 3000})
        table.add({.name = "p" + std::to_string(count), .order = {.outer = count}});
      buckets = cut_buckets(table, 4000);
      std::mt19937_64 random(test::seed("optimizer"));
      std::normal_distribution<float> value;
      replica.params = AlignedBuffer(table.total_floats());
      replica.moments.emplace_back(table.total_floats());
      grad = AlignedBuffer(table.total_floats());
      for (const ParamInfo& p : table.params())
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
          replica.params.data()[i] = value(random);
          grad.data()[i] = value(random);
        }
      for (const Bucket& b : buckets) sums.push_back(grad.data() + b.begin);
    }
    ReducedGradient reduced() const { return {table, buckets, sums}; }

    ParamTable table;
    std::vector<Bucket> buckets;
    Replica replica;
    AlignedBuffer grad;
    std::vector<const float*> sums;
  };

  const KernelTable& fastest() {
    return kernel_table(supported_cpu_classes().back());
  }

  TEST_CASE("clipping scales a larger gradient to the norm, and does not change a smaller one") {
    const Example e;
    Parallel parallel(1);
    double exact = 0.0;
    for (std::int64_t i = 0; i < e.grad.floats(); ++i)
      exact += double(e.grad.data()[i]) * double(e.grad.data()[i]);
    std::vector<float> by_param(3);
    sums_of_squares(e.reduced(), {0, 3}, fastest(), parallel, by_param);
    CHECK(by_param[0] + by_param[1] + by_param[2] == doctest::Approx(exact).epsilon(1e-6));
    OptimizerSpec spec;
    spec.clip_norm = 2.0;
    Optimizer optimizer(spec, {}, 0, 4);
    const double norm = std::sqrt(exact) / 4.0;  // The norm of the mean over four ESTs.
    REQUIRE(norm > 2.0);
    const auto clipped = [&](const std::vector<float>& squares) {
      const UpdateStep step = optimizer.step(0);
      CHECK(optimizer.clip(e.table.trained(), squares));
      return step.grad_scales[0];
    };
    CHECK(clipped(by_param) == doctest::Approx(0.25 * 2.0 / (norm + 1e-6)).epsilon(1e-6));
    CHECK(clipped({0.25F, 0.0F, 0.25F}) == 0.25F);
    CHECK(clipped({0.0F, 0.0F, 0.0F}) == 0.25F);
    CHECK_FALSE(optimizer.clip(e.table.trained(), std::vector{1.0F, INFINITY, 1.0F}));
  }

  TEST_CASE("each clip group has the scale of its own norm, and the others that of theirs") {
    const Example e;
    OptimizerSpec spec;
    spec.clip_norm = 3.0;
    spec.clip_groups = {{.parameters = {"p7*"}, .clip_norm = 0.5},
                        {.parameters = {"p3000"}, .clip_norm = 0.0}};
    auto runs = clipped_runs({GroupRun{0, e.table.trained_floats()}}, e.table, spec.clip_groups);
    Optimizer optimizer(spec, {}, 0, 2, runs.value());
    CHECK(optimizer.clips());
    const UpdateStep step = optimizer.step(0);
    // The norms of the means are 8 and 2. A group that is not clipped has no norm.
    const std::vector<float> squares{256.0F, 16.0F, INFINITY};
    CHECK(optimizer.clip(e.table.trained(), squares));
    CHECK(step.grad_scales[0] == 0.5F * (3.0F / (8.0F + 1e-6F)));
    CHECK(step.grad_scales[1] == 0.5F * (0.5F / (2.0F + 1e-6F)));
    CHECK(step.grad_scales[2] == 0.5F);
    spec.clip_norm = 0.0;
    spec.clip_groups[0].clip_norm = 0.0;
    CHECK_FALSE(Optimizer(spec, {}, 0, 2, runs.value()).clips());
  }

  TEST_CASE("an update does not change frozen parameters") {
    Example e;
    e.table.add({.name = "frozen", .order = {.outer = 20}, .trained = false});
    e.replica.params = AlignedBuffer(e.table.total_floats());
    const std::int64_t begin = e.table.trained_floats();
    for (std::int64_t i = begin; i < begin + 20; ++i) e.replica.params.data()[i] = 0.5F;
    OptimizerSpec spec;
    spec.weight_decay = 0.1;
    Optimizer optimizer(spec, {}, 0, 1);
    Parallel parallel(1);
    CHECK(update_params(e.reduced(), optimizer, optimizer.step(0), fastest(), parallel, e.replica));
    CHECK(e.replica.params.data()[0] != 0.0F);
    for (std::int64_t i = begin; i < begin + 20; ++i) {
      CHECK(e.replica.params.data()[i] == 0.5F);
    }
    std::vector<float> by_param(3);
    sums_of_squares(e.reduced(), {0, 3}, fastest(), parallel, by_param);
    CHECK(by_param[2] > 0.0F);
  }

  TEST_CASE("an update has the same bits with any number of threads") {
    OptimizerSpec spec;
    spec.weight_decay = 0.01;
    Optimizer optimizer(spec, {}, 0, 4);
    const Example untouched;
    std::vector<float> expected;
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      Example e;
      Parallel parallel(threads);
      CHECK(
          update_params(e.reduced(), optimizer, optimizer.step(0), fastest(), parallel, e.replica));
      const float* p = e.replica.params.data();
      if (expected.empty()) expected.assign(p, p + e.grad.floats());
      CHECK(std::equal(expected.begin(), expected.end(), p));
      CHECK(p[0] != untouched.replica.params.data()[0]);
      CHECK(p[5000] == 0.0F);  // Padding.
      std::vector<float> by_param(3), alone(3);
      Parallel one(1);
      sums_of_squares(e.reduced(), {0, 3}, fastest(), parallel, by_param);
      sums_of_squares(e.reduced(), {0, 3}, fastest(), one, alone);
      CHECK(by_param == alone);
    }
  }

  // The parameters of Example after two updates with these groups.
  std::vector<float> updated(const OptimizerSpec& spec, std::uint32_t threads = 1) {
    Example e;
    if (spec.kind != "sgd") e.replica.moments.emplace_back(e.table.total_floats());
    Optimizer optimizer(spec, {}, 0, 4, group_runs(e.table, spec.groups).value());
    Parallel parallel(threads);
    for (Version v = 0; v < 2; ++v)
      CHECK(
          update_params(e.reduced(), optimizer, optimizer.step(v), fastest(), parallel, e.replica));
    return {e.replica.params.data(), e.replica.params.data() + e.replica.params.floats()};
  }

  TEST_CASE("the parameters of a group have the bits of a job with the settings of the group") {
    for (const char* kind : {"sgd", "adam", "adamw"}) {
      CAPTURE(kind);
      const OptimizerSpec plain{.kind = kind, .learning_rate = 0.03, .weight_decay = 0.1};
      OptimizerSpec other = plain, grouped = plain;
      other.learning_rate = 0.03 * 0.7;
      other.weight_decay = 0.01;
      grouped.groups = {{.parameters = {"p7*"}, .learning_rate_factor = 0.7, .weight_decay = 0.01},
                        {.parameters = {"*"}}};
      const std::vector<float> got = updated(grouped), all_plain = updated(plain),
                               all_other = updated(other);
      const Example e;
      for (const ParamInfo& p : e.table.params()) {
        const std::vector<float>& expected = p.name == "p7" ? all_other : all_plain;
        const auto at = [&p](const std::vector<float>& v) { return v.begin() + p.offset; };
        CHECK(std::equal(at(got), at(got) + p.count, at(expected)));
      }
      CHECK(got != all_plain);
      CHECK(updated(grouped, 3) == got);
    }
  }

  TEST_CASE("a gradient that is not finite is found in every place") {
    OptimizerSpec spec;
    Optimizer optimizer(spec, {}, 0, 1);
    Parallel parallel(1);
    for (const std::int64_t at : {0, 4999, 5008, 5014, 5024, 8023}) {
      CAPTURE(at);
      Example e;
      e.grad.data()[at] = at % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                      : -std::numeric_limits<float>::infinity();
      CHECK_FALSE(
          update_params(e.reduced(), optimizer, optimizer.step(0), fastest(), parallel, e.replica));
      CHECK(first_non_finite(e.reduced(), fastest()) == (at < 5000   ? "p5000"
                                                         : at < 5015 ? "p7"
                                                                     : "p3000"));
    }
  }
}
