#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/log_filter.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct LogsOptions {
  HeadOptions head;
  JobId job;
  std::string since, text, level = "info";
  bool follow = false;
  bool json = false;
};

Result<LogFilter> filter_of(const LogsOptions& options) {
  LogFilter filter{.text = options.text};
  const auto level = log::parse_level(options.level);
  if (!level)
    return usage_error("--level " + options.level + ": allowed are debug, info, warning, error");
  filter.level_min = *level;
  if (options.since.empty()) return filter;
  const auto since = parse_since(options.since, std::chrono::system_clock::now());
  if (!since) return since.error();
  filter.since = *since;
  return filter;
}

Status logs(const LogsOptions& options, Console& console) {
  const auto filter = filter_of(options);
  if (!filter) return filter.error();
  const auto client = connect(options.head);
  if (!client) return client.error();
  const FollowOptions what{.log_from_start = true, .until_now = !options.follow};
  return (*client)->follow(options.job, what, [&](const JobEventView& event) {
    const auto* line = std::get_if<LogLine>(&event);
    if (line == nullptr || !shows(*filter, log::parse_job_line(line->text))) return;
    console.out << (options.json ? log_line_json(line->text) : line->text) << std::endl;
  });
}

}  // namespace

void add_logs_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = app.add_subcommand("logs", "Print a job's log");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command->add_flag("-f,--follow", options->follow, "Print new lines until the job ends");
  command
      ->add_option("--since", options->since,
                   "Only lines from then on: a duration such as 10m, or a time in UTC")
      ->type_name("DURATION|TIME");
  command->add_option("--grep", options->text, "Only lines whose message contains this text")
      ->type_name("TEXT");
  command->add_option("--level", options->level, "Only lines of this level or a higher one")
      ->type_name("LEVEL")
      ->capture_default_str();
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "A line has the time in UTC, the level and the message. With --json, one object a line.\n"
      "Examples:\n"
      "  esctl logs -f resnet18-1\n"
      "  esctl logs resnet18-1 --since 10m --level warning\n"
      "  esctl logs resnet18-1 --since 2026-11-22T17:30 --grep checkpoint --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(logs(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
