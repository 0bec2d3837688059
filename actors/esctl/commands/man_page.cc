#include "actors/esctl/commands/man_page.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace es::actors::esctl {
namespace {

constexpr const char* kExitStatus =
    "0 done; 1 tried and failed; 2 a wrong request; 3 what the request names does not exist; 4 not "
    "allowed now; 128 + N ended by signal N.";

// A line may not begin with a control character of roff, and a hyphen is a minus, which can be
// copied.
std::string roff(const std::string& text) {
  std::string made;
  for (const char c : text) {
    const bool begins = made.empty() || made.back() == '\n';
    if (begins && (c == '.' || c == '\'')) made += "\\&";
    if (c == '\\')
      made += "\\e";
    else if (c == '-')
      made += "\\-";
    else
      made += c;
  }
  return made;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// A title is one line, so it has the first line of the version.
std::string title(const std::string& name, const std::string& version) {
  return ".TH " + upper(name) + " 1 \"\" \"" + roff(version.substr(0, version.find('\n'))) +
         "\" \"EasyScale\"\n";
}

std::string section(const std::string& name, const std::string& body) {
  return body.empty() ? "" : ".SH " + name + "\n" + body;
}

bool is_shown(const CLI::App& command) {
  return !command.get_group().empty();
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (is_shown(*command)) shown.push_back(command);
  return shown;
}

// For example "-f, --follow" or "--head ENDPOINT".
std::string option_heading(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (option.get_items_expected_max() > 0 && !option.get_type_name().empty())
    text += " " + option.get_type_name();
  return text;
}

std::string options_text(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    text +=
        ".TP\n\\fB" + roff(option_heading(*option)) + "\\fR\n" + roff(option->get_description());
    // A path as a default is that of the user who writes the pages.
    const std::string value = option->get_default_str();
    if (!value.empty() && value.find('/') == std::string::npos)
      text += " (default: " + roff(value) + ")";
    if (!option->get_envname().empty()) text += " [environment: " + option->get_envname() + "]";
    text += "\n";
  }
  return text;
}

std::string arguments_text(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional() && !option->nonpositional())
      text += ".TP\n\\fI" + roff(option->get_type_name()) + "\\fR\n" +
              roff(option->get_description()) + "\n";
  return text;
}

std::string synopsis_of(const CLI::App& app, const std::string& name) {
  std::string text = "\\fB" + roff(name) + "\\fR [\\fIOPTION\\fR]...";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || option->nonpositional()) continue;
    const std::string argument = "\\fI" + roff(option->get_type_name()) + "\\fR";
    text += option->get_required() ? " " + argument : " [" + argument + "]";
  }
  if (!commands_of(app).empty()) text += " [\\fICOMMAND\\fR]";
  return text + "\n";
}

// The footer of --help: its lines are kept as they are.
std::string as_it_is(const std::string& text) {
  return text.empty() ? "" : ".nf\n" + roff(text) + "\n.fi\n";
}

// The commands below this one, such as `token add`, with their options.
std::string commands_below(const CLI::App& app, const std::string& name) {
  std::string text;
  for (const CLI::App* command : commands_of(app)) {
    const std::string whole = name + " " + command->get_name();
    text += ".SS " + roff(whole) + "\n" + roff(command->get_description()) + "\n.PP\n" +
            synopsis_of(*command, whole) + arguments_text(*command) + options_text(*command) +
            ".PP\n" + as_it_is(command->get_footer());
  }
  return text;
}

}  // namespace

std::string overview_page(const CLI::App& root, const std::string& version) {
  std::string list;
  for (const CLI::App* command : commands_of(root))
    list += ".TP\n\\fBesctl\\-" + roff(command->get_name()) + "\\fR(1)\n" +
            roff(command->get_description()) + "\n";
  return title("esctl", version) + section("NAME", "esctl \\- command line of EasyScale\n") +
         section("SYNOPSIS", "\\fBesctl\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n") +
         section("DESCRIPTION", roff(root.get_description()) + "\n") + section("COMMANDS", list) +
         section("OPTIONS", options_text(root)) +
         section("EXIT STATUS", std::string(kExitStatus) + "\n") +
         section("SEE ALSO", "\\fBesctl\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR\n");
}

std::string command_page(const CLI::App& command, const std::string& version) {
  const std::string name = "esctl " + command.get_name();
  return title("esctl-" + command.get_name(), version) +
         section("NAME", "esctl\\-" + roff(command.get_name()) + " \\- " +
                             roff(command.get_description()) + "\n") +
         section("SYNOPSIS", synopsis_of(command, name)) +
         section("ARGUMENTS", arguments_text(command)) + section("OPTIONS", options_text(command)) +
         section("COMMANDS", commands_below(command, name)) +
         section("NOTES AND EXAMPLES", as_it_is(command.get_footer())) +
         section("EXIT STATUS", std::string(kExitStatus) + "\n") +
         section("SEE ALSO", "\\fBesctl\\fR(1)\n");
}

}  // namespace es::actors::esctl
