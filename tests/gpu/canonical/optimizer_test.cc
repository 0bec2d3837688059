#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/reference_data.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

Floats copy(const Floats& x) {
  return Floats(x.size(), [p = x.data()]() mutable { return *p++; });
}

// The constants of update `step` (from 1) as the engine computes them.
AdamStep adam_step(int step, double lr, double weight_decay, bool decoupled) {
  const double bc1 = 1 - std::pow(0.9, step), bc2 = 1 - std::pow(0.999, step);
  return {.lr_over_bc1 = static_cast<float>(lr / bc1),
          .rsqrt_bc2 = static_cast<float>(1 / std::sqrt(bc2)),
          .one_minus_beta1 = static_cast<float>(1 - 0.9),
          .one_minus_beta2 = static_cast<float>(1 - 0.999),
          .weight_decay = decoupled ? 0.0f : static_cast<float>(weight_decay),
          .decay = decoupled ? static_cast<float>(1 - lr * weight_decay) : 1.0f};
}

// Six updates from PyTorch, of one tensor under several optimizers.
class Vectors {
 public:
  explicit Vectors(const std::filesystem::path& directory)
      : file_(directory / "optimizers.bin", std::ios::binary) {
    nlohmann::json json;
    std::ifstream(directory / "optimizers.json") >> json;
    for (const auto& t : json["tensors"]) {
      offsets_[t["name"]] = {t["offset"].get<std::int64_t>(), t["nbytes"].get<std::int64_t>() / 4};
    }
  }
  Floats read(const std::string& name) {
    const auto [offset, count] = offsets_.at(name);
    Floats result(count);
    file_.seekg(offset);
    file_.read(reinterpret_cast<char*>(result.data()), count * 4);
    REQUIRE(file_.good());
    return result;
  }

 private:
  std::ifstream file_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> offsets_;
};

// Updates the first weights with the six gradients, update(step, g, p, a, b); a and b begin at
// zero.
template <class Update>
void check_against(Vectors& vectors, const std::string& name, Update update) {
  Floats p = vectors.read("w0");
  Floats a(p.size(), [] { return 0.0f; }), b(p.size(), [] { return 0.0f; });
  for (int step = 1; step <= 6; ++step) {
    const Floats g = vectors.read("g" + std::to_string(step - 1));
    update(step, g, p, a, b);
  }
  const Floats expected = vectors.read("final." + name);
  for (std::int64_t i = 0; i < p.size(); ++i) {
    check_near(p[i], expected[i], 1e-6 * (1 + std::abs(expected[i])), name);
  }
}

TEST_SUITE("gpu/canonical/optimizer") {
  TEST_CASE("optimizers have the same bits in every class for every length") {
    Random random(test::seed("optimizers"));
    for (std::int64_t n = 0; n < 140; ++n) {
      const Floats p = random.normals(n), g = random.normals(n), m = random.normals(n);
      const Floats v(n, [&] { return std::abs(random.normal()); });
      same_in_all_classes("n=" + std::to_string(n), [&](const KernelTable& t) {
        std::vector<Floats> out;
        for (const bool nesterov : {false, true}) {
          out.push_back(copy(p));
          out.push_back(copy(m));
          t.sgd(n, g, 0.25f, 0.1f, 0.9f, 5e-4f, nesterov, out[out.size() - 2], out.back());
        }
        out.push_back(copy(p));
        t.sgd(n, g, 0.25f, 0.1f, 0.9f, 5e-4f, false, out.back(), nullptr);
        for (const bool decoupled : {false, true}) {
          out.push_back(copy(p));
          out.push_back(copy(m));
          out.push_back(copy(v));
          t.adam(n, g, 0.25f, adam_step(3, 1e-3, 0.01, decoupled), out[out.size() - 3],
                 out[out.size() - 2], out.back());
        }
        return out;
      });
    }
  }

  TEST_CASE("six updates equal PyTorch's within rounding") {
    const auto directory = test::reference_data("vectors");
    if (directory.empty()) return;
    Vectors vectors(directory);
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* t : tables) {
      const auto sgd = [&](const char* name, float momentum, float decay, bool nesterov) {
        check_against(vectors, name, [&](int, float* g, Floats& p, float* v, float*) {
          t->sgd(p.size(), g, 1.0f, 0.1f, momentum, decay, nesterov, p,
                 momentum == 0.0f ? nullptr : v);
        });
      };
      sgd("sgd", 0.0f, 0.0f, false);
      sgd("sgd_m", 0.9f, 0.0f, false);
      sgd("sgd_nest_wd", 0.9f, 5e-4f, true);
      const auto adam = [&](const char* name, double decay, bool decoupled) {
        check_against(vectors, name, [&](int step, float* g, Floats& p, float* m, float* v) {
          t->adam(p.size(), g, 1.0f, adam_step(step, 1e-3, decay, decoupled), p, m, v);
        });
      };
      adam("adam", 0.0, false);
      adam("adam_wd", 0.01, false);
      adam("adamw", 0.01, true);
    }
  }

  TEST_CASE("the sum of squares has the same bits in every class and is close to the exact one") {
    Random random(test::seed("sum of squares"));
    const auto sum_of_squares = [](const Floats& x) {
      const auto out =
          same_in_all_classes("n=" + std::to_string(x.size()), [&](const KernelTable& t) {
            std::vector<Floats> result;
            result.emplace_back(1)[0] = t.sum_of_squares(x.size(), x);
            return result;
          });
      return out[0][0];
    };
    // The sum of many numbers rounds away most of what another rounding of a product changes. Three
    // numbers in one lane show it.
    for (int i = 0; i < 100; ++i)
      sum_of_squares(
          Floats(130, [&, at = 0]() mutable { return at++ % 64 == 0 ? random.normal() : 0.0f; }));
    for (const std::int64_t n : {0, 1, 15, 63, 64, 65, 1000, 16384, 16385, 1200000}) {
      const Floats x = random.normals(n);
      const float found = sum_of_squares(x);
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
      check_near(found, sum, 3e-5 * sum, "sum of squares");
    }
  }

  TEST_CASE("one infinite or NaN float is found at any position") {
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* t : tables) {
      for (std::int64_t n = 0; n < 300; n += 1 + n / 20) {
        Floats x(n, [i = 0]() mutable { return i++ % 2 == 0 ? 0x1.fffffep127f : -0x1p-149f; });
        CHECK(!t->any_non_finite(n, x));
        for (std::int64_t i = 0; i < n; ++i) {
          const float before = x[i];
          for (const float bad : {INFINITY, -INFINITY, NAN}) {
            x[i] = bad;
            CHECK(t->any_non_finite(n, x));
          }
          x[i] = before;
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
