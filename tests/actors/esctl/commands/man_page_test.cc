#include "actors/esctl/commands/man_page.h"

#include <doctest/doctest.h>

using namespace es::actors::esctl;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("actors/esctl/commands/man_page") {
  TEST_CASE("a page has the options, the arguments and the examples of the table of --help") {
    CLI::App app("program");
    CLI::App* command = app.add_subcommand("logs", "Print a log");
    std::string job, level = "info";
    command->add_option("job", job, "Job id")->required()->type_name("JOB");
    command->add_option("-l,--level", level, "Least level")
        ->type_name("LEVEL")
        ->envname("LEVEL_NAME")
        ->capture_default_str();
    std::string state = "/home/me/state";
    command->add_option("--state", state, "State")->type_name("DIR")->capture_default_str();
    command->footer("Example:\n.a line that roff would obey\n  logs \\-f");
    app.add_subcommand("hidden", "Nothing to see")->group("");
    const std::string page = command_page(*command, "1.2\nbuilt from 3f");
    CHECK(page.starts_with(".TH ESCTL-LOGS 1 \"\" \"1.2\" \"EasyScale\"\n.SH NAME\n"));
    CHECK(contains(page, "esctl\\-logs \\- Print a log\n"));
    CHECK(contains(page, "\\fBesctl logs\\fR [\\fIOPTION\\fR]... \\fIJOB\\fR\n"));
    CHECK(contains(page,
                   "\\fB\\-l, \\-\\-level LEVEL\\fR\nLeast level (default: info) [environment: "
                   "LEVEL_NAME]\n"));
    CHECK(contains(page, "DIR\\fR\nState\n"));  // the default is a path of this user
    CHECK(contains(page, "\n\\&.a line"));
    CHECK(contains(page, "logs \\e\\-f"));
    const std::string overview = overview_page(app, "1.2");
    CHECK(contains(overview, "\\fBesctl\\-logs\\fR(1)\nPrint a log\n"));
    CHECK_FALSE(contains(overview, "hidden"));
  }
}
