#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct RmOptions {
  HeadOptions head;
  std::vector<JobId> jobs;
  bool json = false;
};

// Goes on after a job that cannot be removed. The error names all of them, with the kind of the
// first.
Status rm(const RmOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  std::optional<Error> failed;
  for (const JobId& job : options.jobs) {
    const auto note = remove_job(**client, job);
    if (!note) {
      const Error& error = note.error();
      failed = failed ? Error{failed->kind, failed->message + "; " + error.message} : error;
      continue;
    }
    if (!options.json)
      console.out << "job " << job << " is removed" << (note->empty() ? "" : "; ") << *note << "\n";
  }
  if (failed) return *failed;
  if (options.json) console.out << removed_json(options.jobs) << "\n";
  return {};
}

}  // namespace

void add_rm_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<RmOptions>();
  CLI::App* command = app.add_subcommand(
      "rm", "Remove jobs that are over: their records, ledgers, evaluations and logs");
  command->add_option("job", options->jobs, "Job ids")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Checkpoints and saved states stay; `esctl checkpoint prune` removes some of a series.\n"
      "`esctl ledger JOB --out FILE` keeps the proof of a job before.\n"
      "Example:\n"
      "  esctl rm resnet18-1 resnet18-2");
  command->callback([options, &shell] {
    shell.exit_code = finish(rm(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
