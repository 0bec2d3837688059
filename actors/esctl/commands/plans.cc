#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/plans_view.h"

namespace es::actors::esctl {
namespace {

struct PlansOptions {
  HeadOptions head;
  JobId job;
  std::size_t top = 20;
  bool json = false;
};

Status plans(const PlansOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto view = list_plans(**client, options.job);
  if (!view) return view.error();
  console.out << (options.json ? plans_json(options.job, *view) + "\n"
                               : plans_text(*view, options.top, out_columns(console)));
  return {};
}

}  // namespace

void add_plans_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<PlansOptions>();
  CLI::App* command = app.add_subcommand(
      "plans", "Show how a job could use the cluster's devices, the fastest plan first");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command->add_option("--top", options->top, "Number of plans to print; 0 = all")
      ->type_name("N")
      ->capture_default_str();
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl plans resnet18-1\n  esctl plans resnet18-1 --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(plans(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
