#include <nlohmann/json.hpp>

#include "actors/base/program/finite.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/json_text.h"
#include "actors/views/render_json.h"
#include "proto/base/job_spec.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

struct BudgetOptions {
  HeadOptions head;
  JobId job;
  double budget = 0;
  bool json = false;
};

Status change_budget(const BudgetOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done = (*client)->ask<wire::Done, wire::BudgetJob>(
      options.job, [&](wire::BudgetJob::Builder b) { b.setBudget(options.budget); });
  if (!done) return done.error();
  if (options.json)
    console.out << json_text({{"job", options.job}, {"budget", options.budget}}) << "\n";
  else if (options.budget > 0)
    console.out << "job " << options.job << " may spend " << number_text(options.budget) << "\n";
  else
    console.out << "job " << options.job << " has no budget any more\n";
  return {};
}

}  // namespace

void add_budget_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<BudgetOptions>();
  CLI::App* command = app.add_subcommand(
      "budget", "Change the most that the devices of a job may cost, at the prices of the head");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command
      ->add_option("budget", options->budget,
                   "More than the job has spent already, or 0 for no budget")
      ->required()
      ->check(CLI::Range(0.0, kBudgetMax))
      ->check(finite_number())
      ->type_name("AMOUNT");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "A job that was paused because its budget is used up continues from its newest saved state.\n"
      "Example:\n  esctl budget resnet18-1 25");
  command->callback([options, &shell] {
    shell.exit_code = finish(change_budget(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
