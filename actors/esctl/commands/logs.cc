#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct LogsOptions {
  HeadOptions head;
  JobId job;
  bool follow = false;
  bool json = false;
};

Status logs(const LogsOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const FollowOptions what{.log_from_start = true, .until_now = !options.follow};
  return (*client)->follow(options.job, what, [&](const JobEventView& event) {
    const auto* line = std::get_if<LogLine>(&event);
    if (line == nullptr) return;
    console.out << (options.json ? log_line_json(line->text) : line->text) << std::endl;
  });
}

}  // namespace

void add_logs_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = app.add_subcommand("logs", "Print a job's log");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command->add_flag("-f,--follow", options->follow, "Print new lines until the job ends");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("With --json, one object a line.\nExample:\n  esctl logs -f resnet18-1");
  command->callback([options, &shell] {
    shell.exit_code = finish(logs(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
