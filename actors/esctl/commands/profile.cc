// `esctl profile`: where the devices of a job spend their time, and for what they hold memory.
#include "actors/esctl/client/trace_request.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/trace_file.h"
#include "actors/views/profile_view.h"

namespace es::actors::esctl {
namespace {

struct ProfileCommand {
  TracedJob traced{.trace = {.steps = 10, .all_operators = true, .peak = true}};
  std::size_t top = 20;
  std::string svg;
};

Status show_profile(const ProfileCommand& command, Console& console) {
  if (!command.svg.empty()) ES_RETURN_IF_ERROR(check_new_file("--svg", command.svg));
  const auto trace = trace_of(command.traced);
  if (!trace) return trace.error();
  const tracing::Profile profile = tracing::profile_of(*trace);
  if (!command.svg.empty()) ES_RETURN_IF_ERROR(write_text_file(command.svg, profile_svg(profile)));
  console.out << (command.traced.json ? profile_json(profile) + "\n"
                                      : profile_text(profile, command.top, out_columns(console)));
  return {};
}

}  // namespace

void add_profile_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ProfileCommand>();
  CLI::App* command = app.add_subcommand(
      "profile", "Show which operators of a running job take the time, and what is in memory");
  add_trace_options(*command, options->traced, "Number of global steps to measure");
  command->add_option("--top", options->top, "Number of nodes to print; 0 = all")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--svg", options->svg, "Draw the kinds of operators into this new file")
      ->type_name("FILE");
  command->footer(
      "A GPU waits for each operator while it is measured, so its steps take longer.\n"
      "Example:\n  esctl profile resnet18-1\n  esctl profile resnet18-1 --svg profile.svg");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(show_profile(*options, shell.console), options->traced.json, shell.console);
  });
}

}  // namespace es::actors::esctl
