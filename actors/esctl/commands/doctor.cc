#include <chrono>

#include "actors/base/program/default_paths.h"
#include "actors/esctl/client/machine.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/place_checks.h"
#include "actors/esctl/client/process.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/cluster_checks.h"

namespace es::actors::esctl {
namespace {

using Verdict = Finding::Verdict;

struct DoctorOptions {
  HeadOptions head;
  bool names_head = false;  // the user has named the head, so it has to answer
  std::string state = default_state_dir();
  std::string listen;
  std::vector<std::string> directories;
  bool json = false;
};

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void append(Findings& all, const Findings& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void check_programs(Findings& found) {
  const auto easyscaled = find_easyscaled();
  found.push_back(
      easyscaled
          ? Finding{Verdict::kFine, "programs", "easyscaled is " + easyscaled->string() + "."}
          : Finding{Verdict::kWarning, "programs", easyscaled.error().message + ".",
                    "Only `esctl run` and `esctl verify` need it; EASYSCALED "
                    "names another place."});
}

void check_head(const DoctorOptions& options, Findings& found) {
  const auto client = connect(options.head);
  if (!client) {
    const bool is_wrong = options.names_head || client.error().kind != ErrorKind::kNotFound;
    found.push_back({is_wrong ? Verdict::kWrong : Verdict::kFine, "head",
                     client.error().message + ".",
                     is_wrong ? "See docs/OPERATIONS.md, When something is wrong." : ""});
    return;
  }
  const std::int64_t asked = unix_ms();
  const auto list = list_nodes(**client);
  const std::int64_t answered = unix_ms();
  if (!list) {
    found.push_back({Verdict::kWrong, "head", list.error().message + ".", ""});
    return;
  }
  found.push_back({Verdict::kFine, "head",
                   "The head at " + options.head.endpoint + " answered after " +
                       std::to_string(answered - asked) + " ms and has " +
                       counted(list->nodes.size(), "node") + "."});
  append(found, check_cluster({.nodes = list->nodes,
                               .warning = list->warning,
                               .clock_ahead_ms = static_cast<std::int64_t>(list->unix_ms) -
                                                 (asked + answered) / 2,
                               .round_trip_ms = answered - asked}));
}

Findings examine(const DoctorOptions& options) {
  Findings found = check_machine(machine_facts());
  check_programs(found);
  append(found, check_directory(options.state, "the state directory", true));
  for (const std::string& directory : options.directories)
    append(found, check_directory(directory, "directory", false));
  const Findings keys = options.head.keys.empty() ? Findings() : check_keys(options.head.keys);
  append(found, keys);
  if (!options.listen.empty()) append(found, check_port(options.listen));
  // A client with bad keys would only say the same again.
  if (!something_is_wrong(keys)) check_head(options, found);
  return found;
}

}  // namespace

void add_doctor_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this machine and the head: what is wrong, how to mend it");
  command->add_option("--state", options->state, "State directory of the head")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("--directory", options->directories,
                   "A directory for checkpoints, shared or not; may be repeated")
      ->type_name("DIR");
  command
      ->add_option("--listen", options->listen,
                   "An endpoint at which a daemon shall listen, while none does")
      ->type_name("ENDPOINT");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "It changes nothing. Exit code 0: nothing is wrong, though there may be warnings; 1: "
      "something "
      "is\n"
      "wrong. A head has to answer only if --head or ES_HEAD names it.\n"
      "Examples:\n"
      "  esctl doctor\n"
      "  esctl doctor --keys /etc/easyscale/keys --listen tcp://10.0.0.1:7070 --directory "
      "/srv/ckpt");
  command->callback([options, command, &shell] {
    options->names_head = command->count("--head") > 0;
    const Findings found = examine(*options);
    if (options->json)
      shell.console.out << findings_json(found) << "\n";
    else
      print(coloured(findings_text(found)), shell.console);
    shell.exit_code = something_is_wrong(found) ? exit_code(ErrorKind::kFailure) : 0;
  });
}

}  // namespace es::actors::esctl
