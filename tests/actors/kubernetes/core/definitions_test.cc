#include "actors/kubernetes/core/definitions.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "actors/kubernetes/core/job_text.h"
#include "proto/base/job_fields.h"
#include "proto/base/text_file.h"
#include "tests/support/places.h"

using namespace es;
using namespace es::actors;
using kubernetes::Json;

TEST_SUITE("actors/kubernetes/core/definitions") {
  TEST_CASE("the chart has the definitions that the table of fields produces") {
    const auto text = read_text_file(
        es::test::source_root() / "configs/kubernetes/crds/definitions.yaml", 1 << 20);
    REQUIRE(text.ok());
    const bool same = *text == kubernetes::definitions_yaml();
    CHECK_MESSAGE(same,
                  "write it anew: esctl kubernetes crd > "
                  "configs/kubernetes/crds/definitions.yaml");
  }

  TEST_CASE("every field of a job file but its name has a schema with its limits") {
    const Json spec = kubernetes::job_definition()["spec"]["versions"][0]["schema"]
                                                  ["openAPIV3Schema"]["properties"]["spec"];
    const Json& top = spec["properties"];
    for (const FieldValue& value : field_values(JobSpec{})) {
      const std::string table = kubernetes::camel_case(table_of(value.field));
      const std::string name = kubernetes::camel_case(name_in_table(value.field));
      const Json& place = table.empty() ? top : top.at(table).at("properties");
      CHECK_MESSAGE(place.contains(name) == (value.field.key != "name"), value.field.key);
      std::set<std::string> wanted, found;
      for (const FieldValue& member : value.members)
        wanted.insert(kubernetes::camel_case(member.field.key));
      if (value.type == "list of tables")
        for (const auto& [key, schema] : place[name]["items"]["properties"].items())
          found.insert(key);
      CHECK_MESSAGE(found == wanted, value.field.key);
    }
    CHECK(top["optimizer"]["properties"]["clipGroups"]["items"]["properties"].contains("clipNorm"));
    CHECK(top["maxP"]["minimum"] == 1);
    CHECK(top["maxP"]["maximum"] == 1024);
    CHECK(top["level"]["enum"] == Json::array({"D0", "D1", "D2", "auto"}));
    CHECK(top["model"]["properties"]["dropout"]["minimum"] == -1.0);
    CHECK(top["model"]["properties"]["dropout"]["exclusiveMaximum"] == true);
    CHECK(top["devices"]["minimum"] == 0);
  }

  TEST_CASE("what the head has decided on may not change, devices and suspend may") {
    const Json spec = kubernetes::job_definition()["spec"]["versions"][0]["schema"]
                                                  ["openAPIV3Schema"]["properties"]["spec"];
    const std::string rules = spec["x-kubernetes-validations"].dump();
    for (const auto& [name, schema] : spec["properties"].items()) {
      const bool may = name == "devices" || name == "suspend";
      CHECK_MESSAGE((rules.find("oldSelf." + name + "\"") == std::string::npos &&
                     rules.find("oldSelf." + name + ")") == std::string::npos) == may,
                    name);
    }
  }
}
