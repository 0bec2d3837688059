#include "actors/esctl/commands/completion_words.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "actors/views/job_selection.h"

namespace es::actors::esctl {
namespace {

using Words = std::vector<std::string>;

// The values of types that have a few.
const std::map<std::string, Words>& values_of_types() {
  static const std::map<std::string, Words> values{
      {"LEVEL", {"debug", "info", "warning", "error"}},
      {"ROLE", {"view", "submit", "operate", "admin"}},
      {"STATE", {job_states().begin(), job_states().end()}},
      {"ORDER", {"submitted", "state", "name", "rate", "progress"}},
      {"SHELL", {"bash", "zsh", "fish"}}};
  return values;
}

Words split(const std::string& text, char at) {
  Words parts{""};
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// A type such as "D0|D1|D2|auto" lists its values; in "JOB|FILE" each part is a type.
bool is_value(const std::string& part) {
  return std::ranges::any_of(part,
                             [](unsigned char c) { return std::islower(c) || std::isdigit(c); });
}

// FILE, or a name with an extension such as JOB.toml.
bool is_file_type(const std::string& part) {
  const std::size_t dot = part.find('.');
  const bool has_extension = dot != std::string::npos && dot + 1 < part.size() &&
                             std::islower(static_cast<unsigned char>(part[dot + 1])) != 0;
  return part == "FILE" || part == "PATH" || has_extension;
}

void add_words(const Words& words, Completion& to) {
  for (const std::string& word : words) to.candidates.push_back({word});
}

// What can stand for one part of a type.
void add_values(const std::string& part, const NameSources& names, Completion& to) {
  const auto& table = values_of_types();
  if (const auto at = table.find(part); at != table.end()) return add_words(at->second, to);
  if (is_file_type(part))
    to.files = true;
  else if (part == "DIR" || part == "CHECKPOINT")
    to.directories = true;
  else if (part == "JOB")
    add_words(names.jobs(), to);
  else if (part == "NODE")
    add_words(names.nodes(), to);
  else if (part == "NODE/TYPE:INDEX")
    add_words(names.devices(), to);
  else if (part == "CLAIM")
    add_words(names.claims(), to);
}

// The type as --help shows it may end with the allowed range, as in "S:FLOAT in [0.1 - 60]".
std::string without_range(const std::string& type) {
  return type.find(" in [") == std::string::npos ? type : type.substr(0, type.find(':'));
}

Completion values_of(const std::string& type, const NameSources& names) {
  Completion completion;
  const Words parts = split(without_range(type), '|');
  const bool lists_values =
      parts.size() > 1 && std::ranges::none_of(parts, is_file_type) &&
      std::ranges::any_of(parts, [](const std::string& p) {
        return !p.empty() && std::islower(static_cast<unsigned char>(p.back())) != 0;
      });
  for (const std::string& part : parts)
    if (lists_values && is_value(part))
      completion.candidates.push_back({part});
    else
      add_values(part, names, completion);
  // Names of files include those of directories.
  if (completion.files) completion.directories = false;
  return completion;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

const CLI::Option* find_option(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->check_name(word)) return option;
  return nullptr;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->check_name(word)) return command;
  return nullptr;
}

// Where the cursor is: the command, the option that waits for its value, and the number of
// arguments before it.
struct Place {
  const CLI::App* app;
  const CLI::Option* open = nullptr;
  std::size_t arguments = 0;
  bool only_arguments = false;  // behind "--"
};

Place place_of(const CLI::App& root, const Words& before) {
  Place place{&root};
  for (const std::string& word : before) {
    if (place.open != nullptr) {
      place.open = nullptr;
    } else if (!place.only_arguments && word == "--") {
      place.only_arguments = true;
    } else if (!place.only_arguments && word.size() > 1 && word[0] == '-') {
      const CLI::Option* option = find_option(*place.app, word);
      if (option != nullptr && takes_value(*option)) place.open = option;
    } else if (const CLI::App* command = find_command(*place.app, word);
               command != nullptr && place.arguments == 0) {
      place.app = command;
    } else {
      ++place.arguments;
    }
  }
  return place;
}

Completion options_of(const CLI::App& app) {
  Completion completion;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames())
      completion.candidates.push_back({"--" + name, first_line(option->get_description())});
  }
  return completion;
}

Completion arguments_of(const Place& place, const NameSources& names) {
  Completion completion;
  std::size_t number = 0;
  for (const CLI::Option* option : place.app->get_options()) {
    if (!option->get_positional()) continue;
    // The last one may take all that follow.
    const bool takes_all = option->get_items_expected_max() > 1;
    if (number == place.arguments || (takes_all && number < place.arguments))
      completion = values_of(option->get_type_name(), names);
    ++number;
  }
  if (place.arguments > 0 || place.only_arguments) return completion;
  for (const CLI::App* command : place.app->get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty())
      completion.candidates.push_back(
          {command->get_name(), first_line(command->get_description())});
  return completion;
}

void keep_those_that_begin_with(const std::string& begin, Completion& completion) {
  std::erase_if(completion.candidates,
                [&](const Candidate& c) { return !c.word.starts_with(begin); });
}

// The value in "--option=VALUE". Its candidates include the option.
Completion value_in_word(const CLI::App& app, const std::string& word, std::size_t equals,
                         const NameSources& names) {
  const CLI::Option* option = find_option(app, word.substr(0, equals));
  if (option == nullptr || !takes_value(*option)) return {};
  Completion completion = values_of(option->get_type_name(), names);
  for (Candidate& c : completion.candidates) c.word = word.substr(0, equals + 1) + c.word;
  completion.files = completion.directories = false;  // the shell completes whole words only
  return completion;
}

}  // namespace

Completion complete(const CLI::App& root, std::vector<std::string> words,
                    const NameSources& names) {
  if (words.empty()) words.emplace_back();
  const std::string last = words.back();
  words.pop_back();
  const Place place = place_of(root, words);
  Completion completion;
  if (place.open != nullptr)
    completion = values_of(place.open->get_type_name(), names);
  else if (const std::size_t equals = last.find('=');
           !place.only_arguments && last.starts_with("--") && equals != std::string::npos)
    completion = value_in_word(*place.app, last, equals, names);
  else if (!place.only_arguments && last.starts_with('-'))
    completion = options_of(*place.app);
  else
    completion = arguments_of(place, names);
  keep_those_that_begin_with(last, completion);
  return completion;
}

std::string option_value(const std::vector<std::string>& words, const std::string& option) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
  }
  return {};
}

}  // namespace es::actors::esctl
