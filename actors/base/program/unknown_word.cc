#include "actors/base/program/unknown_word.h"

#include <algorithm>
#include <numeric>

namespace es::actors {
namespace {

// The Damerau-Levenshtein distance in which no part of a word is changed twice.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  std::iota(cost[0].begin(), cost[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + other});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_name().empty()) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  if (app.get_fallthrough() && app.get_parent() != nullptr)
    for (std::string& name : options_of(*app.get_parent())) names.push_back(std::move(name));
  return names;
}

// For example, "esctl checkpoint".
std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

// For an app that has commands and also an argument: returns the word that was taken for the
// argument because it is not a command.
std::string argument_of(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional() && option->count() > 0) return option->results().front();
  return {};
}

// Returns the error for a word that `app` does not know.
Error unknown(const CLI::App& app, std::string word) {
  const bool is_option = word.starts_with('-');
  const std::string argument = argument_of(app);
  if (!is_option && !argument.empty() && !commands_of(app).empty()) word = argument;
  const std::string name = word.substr(0, is_option ? word.find('=') : std::string::npos);
  const std::vector<std::string> known = is_option ? options_of(app) : commands_of(app);
  const std::string nearest = nearest_word(name, known);
  const char* kind = is_option ? "option" : known.empty() ? "argument" : "command";
  return usage_error((app.get_parent() == nullptr ? "" : app.get_name() + ": ") + "unknown " +
                     kind + " \"" + name + "\"" +
                     (nearest.empty() ? "" : "; the nearest is " + nearest) + " (see " +
                     full_name(app) + " --help)");
}

// CLI11 gives only this text and the key. Keys are the options without their dashes.
const std::string kUnknownKey = "INI was not able to parse ";

Error unknown_key(const CLI::App& app, const std::string& key) {
  const std::string nearest = nearest_word("--" + key, options_of(app));
  return usage_error("--config: unknown key \"" + key + "\"" +
                     (nearest.size() <= 2 ? "" : "; the nearest is " + nearest.substr(2)));
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = (word.size() + 1) / 2 + 1;  // at most half of the word may differ
  for (const std::string& candidate : known) {
    const std::size_t wrong = distance(word, candidate);
    if (wrong < least) nearest = candidate;
    least = std::min(least, wrong);
  }
  return nearest;
}

std::optional<Error> unknown_word(const CLI::App& app, const CLI::ParseError& refusal) {
  const std::string text = refusal.what();
  if (text.starts_with(kUnknownKey)) return unknown_key(app, text.substr(kUnknownKey.size()));
  for (const CLI::App* command : app.get_subcommands())
    if (auto error = unknown_word(*command, refusal)) return error;
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return std::nullopt;
  // The option may belong to any of the commands on the line. The last command knows the most
  // options.
  const CLI::App* last = &app;
  while (rest.front().starts_with('-') && !last->get_subcommands().empty())
    last = last->get_subcommands().front();
  return unknown(*last, rest.front());
}

}  // namespace es::actors
