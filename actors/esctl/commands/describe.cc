#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

struct DescribeOptions {
  HeadOptions head;
  JobId job;
  bool json = false;
};

Status describe(const DescribeOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  if (options.json)
    console.out << details_json(details->job, details->spec_toml) << "\n";
  else
    print(coloured(details_text(details->job, details->spec_toml, out_columns(console))), console);
  return {};
}

}  // namespace

void add_describe_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<DescribeOptions>();
  CLI::App* command =
      app.add_subcommand("describe", "Show a job: progress, digests, stages, workers, spec");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl describe resnet18-1");
  command->callback([options, &shell] {
    shell.exit_code = finish(describe(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
