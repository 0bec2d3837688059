#include <filesystem>
#include <fstream>

#include "actors/base/program/program_version.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/man_page.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

struct ManOptions {
  std::string command;
  std::string directory;
};

Status write_page(const fs::path& file, const std::string& page) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << page << std::flush;
  if (!out) return failure(file.string() + " cannot be written");
  return {};
}

// One file for each command, and one for all.
Status write_pages(const CLI::App& app, const std::string& version, const fs::path& directory) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) return failure("--directory " + directory.string() + ": " + code.message());
  ES_RETURN_IF_ERROR(write_page(directory / "esctl.1", overview_page(app, version)));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    const fs::path file = directory / ("esctl-" + command->get_name() + ".1");
    ES_RETURN_IF_ERROR(write_page(file, command_page(*command, version)));
  }
  return {};
}

Status man(const CLI::App& app, const ManOptions& options, Console& console) {
  const std::string version = version_line("esctl");
  if (!options.directory.empty()) return write_pages(app, version, options.directory);
  if (options.command.empty()) {
    console.out << overview_page(app, version);
    return {};
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == options.command && !command->get_group().empty()) {
      console.out << command_page(*command, version);
      return {};
    }
  return not_found("\"" + options.command + "\": esctl has no such command (see esctl --help)");
}

}  // namespace

void add_man_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ManOptions>();
  CLI::App* command = app.add_subcommand("man", "Print a page of the manual in roff");
  command->add_option("command", options->command, "The command; without it, the page of esctl")
      ->type_name("COMMAND");
  command
      ->add_option("--directory", options->directory,
                   "Write all pages into this directory, as `meson install` does")
      ->type_name("DIR");
  command->footer("Example:\n  esctl man logs | man -l -");
  command->callback([options, &app, &shell] {
    shell.exit_code = finish(man(app, *options, shell.console), false, shell.console);
  });
}

}  // namespace es::actors::esctl
