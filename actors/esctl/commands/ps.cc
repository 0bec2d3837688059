#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/job_selection.h"
#include "actors/esctl/views/render_json.h"
#include "actors/esctl/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

struct PsOptions {
  HeadOptions head;
  JobSelection selection;
  bool wide = false, json = false;
};

Status ps(const PsOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(check(options.selection));
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto list =
      (*client)->ask<wire::JobList, wire::ListJobs>({}, [](wire::ListJobs::Builder) {});
  if (!list) return list.error();
  std::string warning;
  const auto jobs = list->decode([&](wire::JobList::Reader reader) {
    warning = line_of(reader.getWarning());
    return read_jobs(reader);
  });
  if (!jobs) return jobs.error();
  const std::vector<JobView> shown = selected(*jobs, options.selection);
  console.out << (options.json ? jobs_json(shown, warning) + "\n"
                               : jobs_text(shown, options.wide) + warning_text(warning));
  return {};
}

}  // namespace

void add_ps_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<PsOptions>();
  CLI::App* command =
      app.add_subcommand("ps", "List jobs in the order in which they were submitted");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->add_option("--state", options->selection.states,
                      "Only jobs in this state; may be repeated");
  command->add_option("--tenant", options->selection.tenant, "Only jobs of this tenant");
  command
      ->add_option("--newest", options->selection.newest,
                   "Only this number of the jobs that were submitted last; 0 for all")
      ->capture_default_str();
  command
      ->add_option("--sort", options->selection.sort,
                   "submitted, state, name, rate (samples per second) or progress")
      ->capture_default_str();
  command->add_flag("--wide", options->wide, "Show the level, the tenant and the time left, too");
  command->footer("Examples:\n  esctl ps\n  esctl ps --state running --sort rate --wide");
  command->callback([options, &shell] {
    shell.exit_code = finish(ps(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
