#pragma once
// The commands of esctl, one file each. add_X_command declares the options of the command. If the
// user has chosen it, its callback runs the command and sets the exit code.
#include <CLI/CLI.hpp>

#include "actors/views/console.h"

namespace es::actors::esctl {

struct Shell {
  Console& console;
  int exit_code = 0;
};

void add_run_command(CLI::App& app, Shell& shell);
void add_submit_command(CLI::App& app, Shell& shell);
void add_ps_command(CLI::App& app, Shell& shell);
void add_describe_command(CLI::App& app, Shell& shell);
void add_plans_command(CLI::App& app, Shell& shell);
void add_scale_command(CLI::App& app, Shell& shell);
void add_budget_command(CLI::App& app, Shell& shell);
void add_pause_command(CLI::App& app, Shell& shell);
void add_resume_command(CLI::App& app, Shell& shell);
void add_checkpoint_command(CLI::App& app, Shell& shell);
void add_checkpoint_file_commands(CLI::App& checkpoint, Shell& shell);  // ls, verify, prune
void add_export_command(CLI::App& app, Shell& shell);
void add_eval_command(CLI::App& app, Shell& shell);
void add_predict_command(CLI::App& app, Shell& shell);
void add_generate_command(CLI::App& app, Shell& shell);
void add_cancel_command(CLI::App& app, Shell& shell);
void add_rm_command(CLI::App& app, Shell& shell);
void add_logs_command(CLI::App& app, Shell& shell);
void add_nodes_command(CLI::App& app, Shell& shell);
void add_claim_command(CLI::App& app, Shell& shell);
void add_claims_command(CLI::App& app, Shell& shell);
void add_drain_command(CLI::App& app, Shell& shell);
void add_reserve_command(CLI::App& app, Shell& shell);
void add_release_command(CLI::App& app, Shell& shell);
void add_queues_command(CLI::App& app, Shell& shell);
void add_sim_command(CLI::App& app, Shell& shell);
void add_inspect_command(CLI::App& app, Shell& shell);
void add_models_command(CLI::App& app, Shell& shell);
void add_data_command(CLI::App& app, Shell& shell);
void add_fields_command(CLI::App& app, Shell& shell);
void add_formats_command(CLI::App& app, Shell& shell);
void add_ledger_command(CLI::App& app, Shell& shell);
void add_diff_command(CLI::App& app, Shell& shell);
void add_verify_command(CLI::App& app, Shell& shell);
void add_trace_command(CLI::App& app, Shell& shell);
void add_profile_command(CLI::App& app, Shell& shell);
void add_trace_step_command(CLI::App& app, Shell& shell);
void add_keygen_command(CLI::App& app, Shell& shell);
void add_keys_command(CLI::App& app, Shell& shell);
void add_token_command(CLI::App& app, Shell& shell);
void add_curve_command(CLI::App& app, Shell& shell);
void add_explain_command(CLI::App& app, Shell& shell);
void add_doctor_command(CLI::App& app, Shell& shell);
void add_top_command(CLI::App& app, Shell& shell);
void add_completion_command(CLI::App& app, Shell& shell);
void add_man_command(CLI::App& app, Shell& shell);
void add_slurm_command(CLI::App& app, Shell& shell);

}  // namespace es::actors::esctl
