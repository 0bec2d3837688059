#include "gpu/optim/parameter_groups.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::gpu;

namespace {

// Parameters of 16 floats each. The last one is frozen; "head.weight" and "words.weight" are tied.
ParamTable encoder() {
  ParamTable table;
  for (const char* name :
       {"words.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias", "frozen.bias"})
    table.add(
        {.name = name, .order = {.outer = 16}, .trained = name != std::string("frozen.bias")});
  table.add_alias({.name = "head.weight", .param = 0});
  return table;
}

std::string error_of(const std::vector<ParameterGroup>& groups) {
  const auto runs = group_runs(encoder(), groups);
  REQUIRE_FALSE(runs.ok());
  CHECK(runs.error().kind == ErrorKind::kUsage);
  return runs.error().message;
}

}  // namespace

TEST_SUITE("gpu/optim/parameter_groups") {
  TEST_CASE("a star stands for any characters, and every other character for itself") {
    for (const char* pattern :
         {"fc.bias", "*", "*.bias", "fc.*", "*c.b*", "f*.*s", "fc.bias*", "**"})
      CHECK_MESSAGE(names_parameter(pattern, "fc.bias"), pattern);
    for (const char* pattern : {"", "fc", "bias", "*.weight", "fc?bias", "fc.bias.*", "*bias*s"})
      CHECK_FALSE_MESSAGE(names_parameter(pattern, "fc.bias"), pattern);
    CHECK(names_parameter("*ab", "aab"));
  }

  TEST_CASE("a parameter belongs to the first group that has one of its names") {
    const std::vector<ParameterGroup> groups{{.parameters = {"*.bias", "norm.*"}},
                                             {.parameters = {"*norm*", "head.weight"}}};
    const std::vector<GroupRun> expected{{0, 16, 2}, {16, 48, 1}, {48, 64, 0}, {64, 80, 1}};
    CHECK(group_runs(encoder(), groups).value() == expected);
  }

  TEST_CASE("without groups all trained parameters are one run") {
    CHECK(group_runs(encoder(), {}).value() == std::vector<GroupRun>{{0, 80, 0}});
  }

  TEST_CASE("a name that no parameter has is an error with a similar name") {
    CHECK(error_of({{.parameters = {"*"}}, {.parameters = {"*.bias", "fc.wieght"}}}) ==
          "optimizer.groups[1].parameters = [\"fc.wieght\"]: allowed is the name of a parameter of "
          "the model, with \"*\" for any characters; a similar name is \"fc.weight\"");
    CHECK(error_of({{.parameters = {"*nrom.b*"}}}).find("similar name is \"norm.bias\"") !=
          std::string::npos);
    CHECK(group_runs(encoder(), std::vector<ParameterGroup>{{.parameters = {"frozen*"}}}).ok());
  }

  TEST_CASE("clip groups cut runs further, and join none of them") {
    const std::vector<ClipGroup> groups{{.parameters = {"*.bias"}}, {.parameters = {"fc.*"}}};
    const std::vector<GroupRun> runs{{0, 16, 1}, {16, 40, 2}, {40, 64, 2}, {64, 80, 0}};
    const std::vector<GroupRun> expected{{0, 16, 1, 0},  {16, 32, 2, 0}, {32, 40, 2, 1},
                                         {40, 48, 2, 1}, {48, 64, 2, 2}, {64, 80, 0, 1}};
    CHECK(clipped_runs(runs, encoder(), groups).value() == expected);
    CHECK(clipped_runs(runs, encoder(), {}).value() == runs);
    const std::vector<ClipGroup> wrong{{.parameters = {"fc.wieght"}}};
    CHECK(clipped_runs(runs, encoder(), wrong).error().message ==
          "optimizer.clip_groups[0].parameters = [\"fc.wieght\"]: allowed is the name of a "
          "parameter of the model, with \"*\" for any characters; a similar name is \"fc.weight\"");
  }

  TEST_CASE("the runs of a part of the layout") {
    const std::vector<GroupRun> runs{{0, 16, 2}, {16, 48, 1}, {48, 80, 0}};
    std::vector<GroupRun> seen;
    visit_runs(runs, 8, 64, [&](const GroupRun& run) { seen.push_back(run); });
    CHECK(seen == std::vector<GroupRun>{{8, 16, 2}, {16, 48, 1}, {48, 64, 0}});
    visit_runs(runs, 16, 16, [](const GroupRun&) { CHECK(false); });
  }
}
