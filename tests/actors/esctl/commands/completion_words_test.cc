#include "actors/esctl/commands/completion_words.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace es::actors::esctl;

namespace {

using Words = std::vector<std::string>;

// A small command line with one of everything.
struct Program {
  CLI::App app{"program"};
  std::string text;
  Words more;
  bool flag = false;

  Program() {
    CLI::App* logs = app.add_subcommand("logs", "Print a log\nsecond line");
    logs->add_option("job", text, "Job id")->type_name("JOB");
    logs->add_option("--level", text, "Least level")->type_name("LEVEL");
    logs->add_option("--head", text, "Head")->type_name("ENDPOINT");
    logs->add_option("--seconds", text)->check(CLI::Range(0.5, 2.0))->type_name("S");
    logs->add_flag("-f,--follow", flag, "Follow");
    CLI::App* run = app.add_subcommand("run", "Train");
    run->add_option("file", text)->type_name("JOB.toml");
    run->add_option("--from", text)->type_name("DIR");
    run->add_option("--determinism", text)->type_name("D0|D1|auto");
    app.add_subcommand("show", "Files")->add_option("files", more)->type_name("JOB|FILE");
    CLI::App* token = app.add_subcommand("token", "Tokens");
    token->add_subcommand("add", "Add one");
    token->add_subcommand("revoke", "Remove one");
    app.add_subcommand("secret", "Hidden")->group("");
  }

  Completion complete(Words words) const {
    return es::actors::esctl::complete(app, std::move(words),
                                       {.jobs =
                                            [] {
                                              return Words{"cnn-1", "resnet-2"};
                                            },
                                        .nodes = {},
                                        .devices = {},
                                        .claims = {}});
  }
  Words words(Words line) const {
    Words found;
    for (const Candidate& c : complete(std::move(line)).candidates) found.push_back(c.word);
    return found;
  }
};

}  // namespace

TEST_SUITE("actors/esctl/commands/completion_words") {
  TEST_CASE("commands, without hidden ones, with the first line of their descriptions") {
    const Program program;
    CHECK(program.words({""}) == Words{"logs", "run", "show", "token"});
    CHECK(program.words({}) == Words{"logs", "run", "show", "token"});
    CHECK(program.words({"ru"}) == Words{"run"});
    CHECK(program.words({"x"}).empty());
    CHECK(program.complete({"lo"}).candidates[0].description == "Print a log");
    CHECK(program.words({"token", ""}) == Words{"add", "revoke"});
    CHECK(program.words({"token", "a"}) == Words{"add"});
  }

  TEST_CASE("options and their values") {
    const Program program;
    CHECK(program.words({"logs", "--f"}) == Words{"--follow"});
    CHECK(program.words({"logs", "cnn-1", "--le"}) == Words{"--level"});
    CHECK(program.words({"logs", "--level", "w"}) == Words{"warning"});
    CHECK(program.words({"logs", "--level=e"}) == Words{"--level=error"});
    CHECK(program.words({"run", "--determinism", ""}) == Words{"D0", "D1", "auto"});
    CHECK(program.complete({"run", "--from", ""}).directories);
    CHECK_FALSE(program.complete({"logs", "--seconds", ""}).files);
    CHECK(program.words({"logs", "--seconds", ""}).empty());
    CHECK(program.words({"logs", "--unknown=x"}).empty());
  }

  TEST_CASE("arguments by their types") {
    const Program program;
    CHECK(program.words({"logs", ""}) == Words{"cnn-1", "resnet-2"});
    CHECK(program.words({"logs", "-f", "--level", "info", "r"}) == Words{"resnet-2"});
    CHECK(program.words({"logs", "cnn-1", ""}).empty());
    CHECK(program.complete({"run", ""}).files);
    CHECK(program.words({"run", "--", ""}).empty());
    CHECK(program.complete({"run", "--", ""}).files);
    const Completion both = program.complete({"show", "a", ""});
    CHECK(both.files);
    CHECK(both.candidates.size() == 2);
  }

  TEST_CASE("the value of an option is found in both forms") {
    CHECK(option_value({"logs", "--head", "ipc:///a"}, "--head") == "ipc:///a");
    CHECK(option_value({"logs", "--head=ipc:///a"}, "--head") == "ipc:///a");
    CHECK(option_value({"logs", "--head"}, "--head").empty());
    CHECK(option_value({"logs", "--heads=x"}, "--head").empty());
  }
}
