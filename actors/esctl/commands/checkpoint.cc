#include <filesystem>
#include <string_view>

#include "actors/base/program/unknown_word.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

struct CheckpointOptions {
  HeadOptions head;
  JobId job;
  std::string directory;
  bool json = false;
};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Every id contains a number, and most have a tag after it. A word without a number is therefore a
// mistyped command.
Status check_job_id(const std::string& word) {
  const std::string_view id = word;
  const std::size_t dash = id.rfind('-');
  if (dash != std::string_view::npos && dash > 0) {
    if (is_number(id.substr(dash + 1))) return {};
    const std::size_t before = id.rfind('-', dash - 1);
    if (before != std::string_view::npos && dash + 1 < id.size() &&
        is_number(id.substr(before + 1, dash - before - 1)))
      return {};
  }
  const std::string nearest = nearest_word(word, {"ls", "verify", "prune"});
  return usage_error("checkpoint \"" + word +
                     "\": is neither the id of a job, NAME-NUMBER, nor ls, verify or prune" +
                     (nearest.empty() ? "" : "; the nearest is " + nearest));
}

Status checkpoint(const CheckpointOptions& options, Console& console) {
  if (options.job.empty())
    return usage_error("checkpoint: allowed is the id of a job, or ls, verify, prune");
  ES_RETURN_IF_ERROR(check_job_id(options.job));
  std::error_code code;
  const std::string directory =
      options.directory.empty() ? "" : std::filesystem::absolute(options.directory, code).string();
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto taken = checkpoint_job(**client, options.job, directory);
  if (!taken) return taken.error();
  console.out << (options.json ? checkpoint_json(options.job, *taken) + "\n"
                               : checkpoint_text(*taken));
  return {};
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command =
      app.add_subcommand("checkpoint",
                         "Write a checkpoint at the job's next step boundary and wait until it is "
                         "written; or list, verify and remove checkpoints (ls, verify, prune)");
  add_checkpoint_file_commands(*command, shell);
  command->add_option("job", options->job, "Job id")->type_name("JOB");
  command
      ->add_option("--to", options->directory,
                   "The new directory on the node (default: the head chooses one)")
      ->type_name("DIR");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Example:\n  esctl checkpoint resnet18-1 --to /data/resnet18-step20\n"
      "  esctl submit resnet18.toml --from /data/resnet18-step20\n"
      "  esctl checkpoint ls checkpoints/");
  command->callback([options, command, &shell] {
    if (!command->get_subcommands().empty()) return;
    shell.exit_code = finish(checkpoint(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
