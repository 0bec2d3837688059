#include "actors/views/formats_view.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "proto/base/text_file.h"
#include "tests/support/places.h"

using namespace es;
using namespace es::actors;

TEST_SUITE("actors/esctl/formats_view") {
  TEST_CASE("the table of docs/OPERATIONS.md is the one of the code") {
    const auto page = read_text_file(es::test::source_root() / "docs/OPERATIONS.md", 1 << 20);
    REQUIRE(page.ok());
    const std::string table = formats_markdown(formats());
    const bool same = page->find("\n\n" + table + "\n") != std::string::npos;
    CHECK_MESSAGE(same, "write it anew: esctl formats --markdown\n", table);
  }

  TEST_CASE("every format has its versions, in each form") {
    const auto all = formats();
    const auto json = nlohmann::json::parse(formats_json(all));
    REQUIRE(json.at("formats").size() == all.size());
    for (const FormatView& format : all) {
      CHECK(format.oldest >= 1);
      CHECK(format.oldest <= format.written);
      CHECK(formats_text(all).find(format.name) != std::string::npos);
    }
  }
}
