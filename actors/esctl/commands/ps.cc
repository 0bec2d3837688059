#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/render_json.h"
#include "actors/esctl/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

struct PsOptions {
  HeadOptions head;
  bool json = false;
};

Status ps(const PsOptions& options, Console& console) {
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
  console.out << (options.json ? jobs_json(*jobs, warning) + "\n"
                               : jobs_text(*jobs) + warning_text(warning));
  return {};
}

}  // namespace

void add_ps_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<PsOptions>();
  CLI::App* command =
      app.add_subcommand("ps", "List jobs in the order in which they were submitted");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl ps");
  command->callback([options, &shell] {
    shell.exit_code = finish(ps(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
