#include "actors/views/formats_view.h"

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"

namespace es::actors::esctl {

void add_formats_command(CLI::App& app, Shell& shell) {
  struct Options {
    bool markdown = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "formats", "The versions of the protocol and of files that this release writes and reads");
  command->add_flag("--markdown", options->markdown, "Write the table of docs/OPERATIONS.md");
  add_json_option(*command, options->json);
  command->callback([options, &shell] {
    const auto all = formats();
    shell.console.out << (options->json       ? formats_json(all) + "\n"
                          : options->markdown ? formats_markdown(all)
                                              : formats_text(all));
  });
}

}  // namespace es::actors::esctl
