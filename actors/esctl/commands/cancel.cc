#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct CancelOptions {
  HeadOptions head;
  JobId job;
  bool json = false;
};

Status cancel(const CancelOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  ES_RETURN_IF_ERROR(cancel_job(**client, options.job));
  if (options.json)
    console.out << fields_json({{"job", options.job}, {"state", "cancelled"}}) << "\n";
  else
    console.out << "job " << options.job << " is cancelled, its devices are free\n";
  return {};
}

}  // namespace

void add_cancel_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<CancelOptions>();
  CLI::App* command = app.add_subcommand("cancel", "Stop a job and release its devices");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Its weights are lost unless a checkpoint was written before.\n"
      "Example:\n"
      "  esctl cancel resnet18-1");
  command->callback([options, &shell] {
    shell.exit_code = finish(cancel(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
