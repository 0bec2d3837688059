#include "actors/esctl/esctl.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "actors/base/program/program_version.h"
#include "actors/base/program/unknown_word.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/kubernetes/kubernetes_command.h"

namespace es::actors::esctl {

namespace {

// Handles what CLI11 refuses. It prints CLI11's own message, except for an unknown word. --help and
// --version arrive here too.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, bool json,
                       Console& console) {
  if (error.get_exit_code() == 0) return app.exit(error, console.out, console.err);
  if (const auto unknown = unknown_word(app, error)) return report(*unknown, json, console);
  std::string help = "esctl";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    help += " " + at->get_name();
  }
  return report(usage_error(std::string(error.what()) + " (see " + help + " --help)"), json,
                console);
}

}  // namespace

int run_esctl(std::vector<std::string> arguments, Console& console) {
  CLI::App app(
      "Trains models on a changing set of devices, with bits that do not depend on them.\n"
      "`esctl run JOB.toml` needs no set-up; the other commands talk to a running easyscaled.",
      "esctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_line("esctl"));
  app.footer(
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 refused, 130 and 143 stopped.\n"
      "Help on a command: esctl COMMAND --help");
  Shell shell{console};
  for (const auto add :
       {add_run_command,        add_submit_command,  add_ps_command,         add_describe_command,
        add_plans_command,      add_scale_command,   add_pause_command,      add_resume_command,
        add_checkpoint_command, add_export_command,  add_eval_command,       add_predict_command,
        add_generate_command,   add_cancel_command,  add_logs_command,       add_nodes_command,
        add_claim_command,      add_claims_command,  add_release_command,    add_sim_command,
        add_inspect_command,    add_models_command,  add_data_command,       add_fields_command,
        add_ledger_command,     add_diff_command,    add_verify_command,     add_trace_step_command,
        add_keygen_command,     add_token_command,   add_curve_command,      add_explain_command,
        add_doctor_command,     add_top_command,     add_completion_command, add_man_command,
        add_slurm_command,      add_keys_command,    add_trace_command,      add_profile_command,
        add_queues_command,     add_reserve_command, add_drain_command,      add_budget_command,
        add_rm_command,         add_formats_command, add_kubernetes_command})
    add(app, shell);
  // A script that names no command has made a mistake, and a person wants to know what there is.
  if (arguments.empty()) {
    console.err << app.help();
    return exit_code(ErrorKind::kUsage);
  }
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them in reverse order
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error, json, console);
  }
  return shell.exit_code;
}

}  // namespace es::actors::esctl
