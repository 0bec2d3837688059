#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct PauseOptions {
  HeadOptions head;
  JobId job;
  bool accept_loss = false;  // for resume
  bool json = false;
};

void print(const PauseOptions& options, const char* state, const std::string& text,
           Console& console) {
  if (options.json)
    console.out << fields_json({{"job", options.job}, {"state", state}}) << "\n";
  else
    console.out << "job " << options.job << " " << text << "\n";
}

Status pause(const PauseOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  ES_RETURN_IF_ERROR(pause_job(**client, options.job));
  print(options, "paused", "is paused, its devices are free", console);
  return {};
}

Status resume(const PauseOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto note = resume_job(**client, options.job, options.accept_loss);
  if (!note) return note.error();
  if (options.json && options.accept_loss) {
    console.out << fields_json({{"job", options.job}, {"state", "queued"}, {"note", *note}})
                << "\n";
    return {};
  }
  const std::string about = note->empty() ? "" : "; " + *note;
  print(options, "queued", "continues as soon as it is given devices" + about, console);
  return {};
}

CLI::App* add_command(
    CLI::App& app, Shell& shell, const char* name, const char* what,
    Status (*run)(const PauseOptions&, Console&),
    const std::shared_ptr<PauseOptions>& options = std::make_shared<PauseOptions>()) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->callback([options, run, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
  return command;
}

}  // namespace

void add_pause_command(CLI::App& app, Shell& shell) {
  add_command(app, shell, "pause",
              "Save a job at its next step boundary, end its workers and free its devices", pause)
      ->footer(
          "`esctl resume` continues it from that step, with the same bits.\n"
          "Example:\n"
          "  esctl pause resnet18-1");
}

void add_resume_command(CLI::App& app, Shell& shell) {
  const auto options = std::make_shared<PauseOptions>();
  CLI::App* command = add_command(app, shell, "resume", "Continue a paused job", resume, options);
  command->add_flag("--accept-loss", options->accept_loss,
                    "Give up the saved states of the job that no node can read now, and continue "
                    "from the newest readable one, or from the start of the job");
  command->footer(
      "A job continues from its newest saved state, and waits while the node with this state is "
      "away.\n"
      "--accept-loss is for a node that will not come back, and is allowed for a job that is not "
      "paused\n"
      "too. The answer names the states that are given up.\n"
      "Example:\n"
      "  esctl resume resnet18-1\n"
      "  esctl resume resnet18-1 --accept-loss");
}

}  // namespace es::actors::esctl
