#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "gpu/params/buckets.h"
#include "gpu/params/initialise.h"
#include "gpu/params/param_table.h"
#include "gpu/params/pytorch_layout.h"
#include "proto/base/philox.h"

TEST_SUITE("gpu/params") {
  using namespace es::gpu;

  // Parameters of 5, 32 and 100 floats: regions of 16, 32 and 112.
  ParamTable example_table() {
    ParamTable table;
    table.add({.name = "a", .torch_shape = {5}, .order = {.outer = 5}});
    table.add({.name = "b", .torch_shape = {4, 2, 2, 2}, .order = {4, 4, 2}, .init = {0, 0.5F}});
    table.add({.name = "c", .torch_shape = {10, 10}, .order = {10, 1, 10}, .init = {1, 0}});
    table.add_mean("bn.running_mean", 3);
    table.add_variance("bn.running_var", 3);
    return table;
  }

  TEST_CASE("parameters start at multiples of 16 floats, in order") {
    const ParamTable table = example_table();
    CHECK(table[0].offset == 0);
    CHECK(table[1].offset == 16);
    CHECK(table[2].offset == 48);
    CHECK(table.total_floats() == 160);
    CHECK(table.parameter_count() == 137);
    CHECK(table.padded_end(0) == 16);
    CHECK(table.padded_end(2) == 160);
    CHECK(table.stat_floats() == 6);
  }

  TEST_CASE("buckets are cut from the end and cover the flat array once") {
    const ParamTable table = example_table();
    CHECK(cut_buckets(table, 1) == std::vector<Bucket>{{48, 160}, {16, 48}, {0, 16}});
    CHECK(cut_buckets(table, 48) == std::vector<Bucket>{{48, 160}, {0, 48}});
    CHECK(cut_buckets(table, 144) == std::vector<Bucket>{{16, 160}, {0, 16}});
    CHECK(cut_buckets(table, 1000) == std::vector<Bucket>{{0, 160}});
    CHECK(bucket_of(cut_buckets(table, 48), table[1]) == 1);
    CHECK(bucket_of(cut_buckets(table, 48), table[2]) == 0);
  }

  TEST_CASE("convolution weights are converted from OHWI to OIHW and back") {
    const ParamTable table = example_table();
    std::vector<float> ours(32), theirs(32), back(32);
    std::iota(ours.begin(), ours.end(), 0.0F);
    to_pytorch(table[1], ours.data(), theirs.data());
    // For o = 0 our layout is [h*w = 4][i = 2].
    CHECK(std::vector<float>(theirs.begin(), theirs.begin() + 8) ==
          std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
    from_pytorch(table[1], theirs.data(), back.data());
    CHECK(back == ours);
  }

  TEST_CASE("a state is unchanged after export and import in any order") {
    const ParamTable table = example_table();
    std::vector<float> flat(160), stats{1, 2, 3, 4, 5, 6};
    initialise_params(table, 9, flat.data());
    std::vector<NamedTensor> tensors = export_state(table, flat.data(), stats.data());
    CHECK(tensors.size() == 5);
    CHECK(tensors[4].name == "bn.running_var");
    std::reverse(tensors.begin(), tensors.end());
    std::vector<float> flat_back(160, 7.0F), stats_back(6);
    REQUIRE(import_state(table, tensors, flat_back.data(), stats_back.data()).ok());
    CHECK(flat_back == flat);
    CHECK(stats_back == stats);
  }

  TEST_CASE("an import with a missing parameter or another shape is an error that names it") {
    const ParamTable table = example_table();
    std::vector<float> flat(160), stats(6);
    std::vector<NamedTensor> tensors = export_state(table, flat.data(), stats.data());
    tensors[1].shape = {4, 2, 4, 1};
    const auto reshaped = import_state(table, tensors, flat.data(), stats.data());
    REQUIRE_FALSE(reshaped.ok());
    CHECK(reshaped.error().message.find("\"b\" has shape [4,2,4,1]") != std::string::npos);
    tensors.erase(tensors.begin());
    const auto missing = import_state(table, tensors, flat.data(), stats.data());
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().message.find("\"a\" is missing") != std::string::npos);
  }

  TEST_CASE(
      "initial parameters depend on the seed, keep their bound, and have zeros in the padding") {
    const ParamTable table = example_table();
    std::vector<float> flat(160, 9.0F), again(160), other(160);
    initialise_params(table, 1, flat.data());
    initialise_params(table, 1, again.data());
    initialise_params(table, 2, other.data());
    CHECK(flat == again);
    CHECK(flat != other);
    for (int i = 0; i < 16; ++i) CHECK(flat[i] == 0.0F);
    for (int i = 16; i < 48; ++i) CHECK(std::abs(flat[i]) <= 0.5F);
    for (std::uint32_t e = 0; e < 32; ++e) {
      // The counter: four elements, the parameter, the stream of the parameters.
      const es::PhiloxCounter words = es::philox4x32_10({e / 4, 1, 1, 0}, es::philox_key(1));
      CHECK(flat[16 + e] == 0.5F * (2.0F * es::uniform_float(words[e % 4]) - 1.0F));
    }
    for (int i = 48; i < 148; ++i) CHECK(flat[i] == 1.0F);
    for (int i = 148; i < 160; ++i) CHECK(flat[i] == 0.0F);
    CHECK(initial_stats(table) == std::vector<float>{0, 0, 0, 1, 1, 1});
  }

  TEST_CASE("buckets end before the frozen parameters, which lie behind all others") {
    ParamTable table;
    table.add({.name = "a", .order = {.outer = 20}});
    table.add({.name = "b", .order = {.outer = 5}});
    table.add({.name = "frozen", .order = {.outer = 40}, .trained = false});
    CHECK(table.trained().size() == 2);
    CHECK(table.trained_floats() == 48);
    CHECK(table.total_floats() == 96);
    CHECK(cut_buckets(table, 1000) == std::vector<Bucket>{{0, 48}});
  }
}
