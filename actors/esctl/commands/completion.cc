// `esctl completion SHELL`, and the hidden command `esctl complete` that its scripts ask.
#include <map>

#include "actors/base/program/default_paths.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/completion_words.h"

namespace es::actors::esctl {
namespace {

// The scripts. Each asks `esctl complete SHELL WORD...`, whose last word is the incomplete one. A
// line of the answer is a candidate, in zsh and fish with a description behind a tabulator, or
// ":files" or ":directories" where such names may follow.
constexpr const char* kBash = R"(# bash completion of esctl: source <(esctl completion bash)
_esctl_paths() {
  local path
  compopt -o filenames 2> /dev/null
  while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$2")
}
_esctl() {
  local line word words
  # `=` and `:` divide words of bash, and not those of esctl.
  if declare -F _get_comp_words_by_ref > /dev/null; then
    local cword; _get_comp_words_by_ref -n =: words cword
  else
    words=("${COMP_WORDS[@]}"); local cword=$COMP_CWORD
  fi
  COMPREPLY=()
  word=${words[cword]}
  while IFS= read -r line; do
    case $line in
      :files) _esctl_paths -f "$word" ;;
      :directories) _esctl_paths -d "$word" ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <("${words[0]}" complete bash -- "${words[@]:1:cword}" 2> /dev/null)
  if declare -F __ltrim_colon_completions > /dev/null; then __ltrim_colon_completions "$word"; fi
}
complete -F _esctl esctl
)";

constexpr const char* kZsh = R"(#compdef esctl
# zsh completion of esctl: a file _esctl in $fpath, or: source <(esctl completion zsh)
_esctl() {
  local line
  local -a described
  local files directories
  while IFS= read -r line; do
    case $line in
      :files) files=1 ;;
      :directories) directories=1 ;;
      *) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done < <("${words[1]}" complete zsh -- "${(@)words[2,CURRENT]}" 2> /dev/null)
  if (( ${#described} )); then _describe -V 'esctl' described; fi
  if [[ -n $files ]]; then _files; elif [[ -n $directories ]]; then _files -/; fi
}
if [[ $funcstack[1] == _esctl ]]; then _esctl "$@"; else compdef _esctl esctl; fi
)";

constexpr const char* kFish = R"(# fish completion of esctl: esctl completion fish | source
function __esctl_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for line in ($words[1] complete fish -- $words[2..-1] $word 2> /dev/null)
        switch $line
            case :files
                __fish_complete_path $word
            case :directories
                __fish_complete_directories $word
            case '*'
                echo $line
        end
    end
end
complete -c esctl -f -a '(__esctl_complete)'
)";

const std::map<std::string, const char*>& scripts() {
  static const std::map<std::string, const char*> by_shell{
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  return by_shell;
}

// --- names from the head

struct CompleteOptions {
  std::string shell;
  std::vector<std::string> words;
};

// Asks the head that the words name, or else that of the environment. Where none answers, there are
// no names.
template <class Ask>
std::vector<std::string> names_from_head(const std::vector<std::string>& words, Ask&& ask) {
  HeadOptions options;
  const auto chosen = [&](const char* option, const char* variable) {
    const std::string value = option_value(words, option);
    return value.empty() ? process_environment(variable) : value;
  };
  options.endpoint = chosen("--head", "ES_HEAD");
  if (options.endpoint.empty()) options.endpoint = default_head_endpoint();
  options.keys = chosen("--keys", "ES_KEYS");
  for (const std::string& word : words)
    if (word == "--insecure-loopback") options.insecure_loopback = true;
  const auto client = connect(options);
  if (!client) return {};
  return ask(**client);
}

std::vector<std::string> job_names(Client& client) {
  std::vector<std::string> names;
  if (const auto jobs = list_jobs(client))
    for (const JobView& job : jobs->jobs) names.push_back(job.id);
  return names;
}

std::vector<std::string> node_names(Client& client) {
  std::vector<std::string> names;
  if (const auto list = list_nodes(client))
    for (const NodeView& node : list->nodes) names.push_back(node.name);
  return names;
}

// Those that can be cleared.
std::vector<std::string> suspect_devices(Client& client) {
  std::vector<std::string> names;
  if (const auto list = list_nodes(client))
    for (const NodeView& node : list->nodes)
      for (const DeviceView& d : node.devices)
        if (!d.suspect.empty())
          names.push_back(node.name + "/" + d.type + ":" + std::to_string(d.index));
  return names;
}

std::vector<std::string> claim_names(Client& client) {
  std::vector<std::string> names;
  if (const auto list = list_nodes(client))
    for (const ClaimView& claim : list->claims) names.push_back(claim.name);
  return names;
}

void print_candidates(const Completion& completion, bool with_descriptions, Console& console) {
  for (const Candidate& c : completion.candidates) {
    console.out << c.word;
    if (with_descriptions) console.out << "\t" << c.description;
    console.out << "\n";
  }
  if (completion.files) console.out << ":files\n";
  if (completion.directories) console.out << ":directories\n";
}

void run_complete(const CLI::App& app, const CompleteOptions& options, Console& console) {
  const std::vector<std::string>& words = options.words;
  const auto from_head = [&words](auto ask) {
    return [&words, ask] { return names_from_head(words, ask); };
  };
  const NameSources names{.jobs = from_head(job_names),
                          .nodes = from_head(node_names),
                          .devices = from_head(suspect_devices),
                          .claims = from_head(claim_names)};
  print_candidates(complete(app, words, names), options.shell != "bash", console);
}

Status print_script(const std::string& shell, Console& console) {
  const auto at = scripts().find(shell);
  if (at == scripts().end())
    return usage_error("\"" + shell + "\": allowed are bash, zsh and fish");
  console.out << at->second;
  return {};
}

}  // namespace

void add_completion_command(CLI::App& app, Shell& shell) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes command lines in a shell");
  command->add_option("shell", *name, "bash, zsh or fish")->required()->type_name("SHELL");
  command->footer(
      "It completes commands, options, jobs, nodes, claims and files. `meson install` puts the "
      "scripts\n"
      "where the shells find them.\n"
      "Examples:\n"
      "  source <(esctl completion bash)\n"
      "  esctl completion fish > ~/.config/fish/completions/esctl.fish");
  command->callback([name, &shell] {
    shell.exit_code = finish(print_script(*name, shell.console), false, shell.console);
  });

  auto options = std::make_shared<CompleteOptions>();
  CLI::App* hidden = app.add_subcommand("complete", "Print what can follow in a command line");
  hidden->group("");  // not in --help: only the scripts use it
  hidden->add_option("shell", options->shell)->required();
  hidden->add_option("words", options->words);  // behind "--", so that none is an option of this
  hidden->callback([options, &app, &shell] { run_complete(app, *options, shell.console); });
}

}  // namespace es::actors::esctl
