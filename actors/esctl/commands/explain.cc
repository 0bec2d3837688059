#include "actors/views/explain.h"

#include "actors/esctl/client/cluster_facts.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"

namespace es::actors::esctl {
namespace {

struct ExplainOptions {
  HeadOptions head;
  JobId job;
  bool json = false;
};

Status explain_job(const ExplainOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto facts = cluster_facts(**client, options.job);
  if (!facts) return facts.error();
  const Explanation explanation = explain(*facts);
  console.out << (options.json ? explanation_json(facts->job, explanation) + "\n"
                               : explanation_text(explanation));
  return {};
}

}  // namespace

void add_explain_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Say why a job waits, or is not faster");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl explain resnet18-1");
  command->callback([options, &shell] {
    shell.exit_code = finish(explain_job(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
