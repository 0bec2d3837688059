#include "actors/views/fields_view.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "proto/base/text_file.h"
#include "tests/support/places.h"

using namespace es;
using namespace es::actors;

TEST_SUITE("actors/esctl/fields_view") {
  TEST_CASE("docs/JOB-FILE.md is the page that the table of fields produces") {
    const auto page = read_text_file(es::test::source_root() / "docs/JOB-FILE.md", 1 << 20);
    REQUIRE(page.ok());
    const bool same = *page == fields_markdown(field_values(JobSpec{}));
    CHECK_MESSAGE(same, "write it anew: esctl fields --markdown > docs/JOB-FILE.md");
  }

  TEST_CASE("the forms for people and for programs have every field and its default") {
    const auto fields = field_values(JobSpec{});
    const auto json = nlohmann::json::parse(fields_json(fields));
    REQUIRE(json.at("fields").size() == fields.size());
    const std::string text = fields_text(fields);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string key(fields[i].field.key);
      CHECK(json["fields"][i].at("key") == key);
      CHECK(text.find(key + " = " + fields[i].toml + "\n") != std::string::npos);
    }
  }
}
