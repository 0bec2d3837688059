#include <filesystem>

#include "actors/base/program/default_devices.h"
#include "actors/esctl/client/d2_cost.h"
#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/private_run.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/ledger_view.h"

namespace es::actors::esctl {
namespace {

struct VerifyOptions {
  std::string file;
  std::string level;
  std::uint64_t steps = 0;  // 0 means the sum of the stages
  std::vector<std::string> stages;
  bool quiet = false;
  bool json = false;
};

std::uint64_t steps_of(const std::vector<Stage>& stages) {
  std::uint64_t sum = 0;
  for (const Stage& stage : stages) sum += stage.steps;
  return sum;
}

// Returns the stages of one run. Stages without steps ("cpu-avx2:2") take all `steps`.
Result<std::string> with_steps(const std::string& text, std::uint64_t steps) {
  if (text.find('@') != std::string::npos) return text;
  if (steps == 0)
    return usage_error("--stages " + text +
                       ": allowed is DEVICES@STEPS,..., or DEVICES together with --steps N");
  return text + "@" + std::to_string(steps);
}

struct Plan {
  std::string stages;
  JobSpec spec;
};

Result<std::vector<Plan>> make_plans(const VerifyOptions& options, Console& console) {
  if (options.stages.size() < 2)
    return usage_error("--stages is given " + std::to_string(options.stages.size()) +
                       " times: allowed is at least 2, because runs are compared");
  std::vector<Plan> plans;
  const StartPoint start{.checkpoint = {}, .version = 0};
  for (const std::string& text : options.stages) {
    const auto stages = with_steps(text, options.steps);
    if (!stages) return stages.error();
    SpecChanges changes;
    changes.stages = *stages;
    if (!options.level.empty()) changes.level = options.level;
    auto spec = make_spec(options.file, changes, start);
    if (!spec) return spec.error();
    spec->checkpoint = JobSpec().checkpoint;  // these runs are never continued
    if (!plans.empty() && steps_of(spec->stages) != steps_of(plans.front().spec.stages))
      return usage_error("--stages " + *stages + " has " + std::to_string(steps_of(spec->stages)) +
                         " steps: allowed is the same number for all, " +
                         std::to_string(steps_of(plans.front().spec.stages)));
    if (plans.empty()) {
      ES_RETURN_IF_ERROR(resolve_auto_level(*spec, start, console));
    } else {
      // The level is measured once. Runs with different levels could not be compared.
      spec->level = plans.front().spec.level;
    }
    ES_RETURN_IF_ERROR(check_devices(*spec, default_devices()));
    plans.push_back({*stages, *std::move(spec)});
  }
  return plans;
}

struct Trained {
  JobView end;
  store::LedgerFile ledger;
  int stop_signal = 0;
};

Result<Trained> train(const Plan& plan, const VerifyOptions& options,
                      const std::filesystem::path& easyscaled, Console& console) {
  Trained trained;
  const PrivateRunOptions run_options{.checkpoint = {},
                                      .keep = {},
                                      .rescue = false,
                                      .quiet = options.quiet,
                                      .at_end = [&](Client& client, const JobId& job) {
                                        auto ledger = read_ledger(client, job);
                                        if (!ledger) return Status(ledger.error());
                                        trained.ledger = *std::move(ledger);
                                        return Status();
                                      }};
  PrivateRun run(run_options, console);
  ES_RETURN_IF_ERROR(run.start(easyscaled));
  auto end = run.train(plan.spec, StartPoint{.checkpoint = {}, .version = 0});
  trained.stop_signal = run.stop_signal();
  if (trained.stop_signal != 0) return trained;
  if (!end) return end.error();
  if (end->state != "finished")
    return failure("stages " + plan.stages + ": job " + end->state +
                   (end->error.empty() ? "" : ": " + end->error));
  trained.end = *std::move(end);
  return trained;
}

std::string difference_of(const VerifiedRun& first, const VerifiedRun& run) {
  const LedgerComparison comparison = compare(first.ledger, run.ledger);
  if (comparison.first) return difference_text(*comparison.first);
  if (!comparison.equal()) return "the ledgers have different steps";
  return first.state_digest == run.state_digest ? "" : "the final state";
}

Result<int> verify(const VerifyOptions& options, Console& console) {
  const auto plans = make_plans(options, console);
  if (!plans) return plans.error();
  const auto easyscaled = find_easyscaled();
  if (!easyscaled) return easyscaled.error();
  std::vector<VerifiedRun> runs;
  for (const Plan& plan : *plans) {
    if (!options.quiet) console.err << "stages " << plan.stages << std::endl;
    auto trained = train(plan, options, *easyscaled, console);
    if (!trained) return trained.error();
    if (trained->stop_signal != 0) return 128 + trained->stop_signal;
    VerifiedRun run{plan.stages, std::move(trained->ledger), trained->end.params_digest,
                    trained->end.state_digest};
    if (!runs.empty()) run.difference = difference_of(runs.front(), run);
    runs.push_back(std::move(run));
  }
  console.out << (options.json ? verify_json(runs) + "\n" : verify_text(runs));
  return all_identical(runs) ? 0 : 1;
}

}  // namespace

void add_verify_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Train a job under several placements and compare every step's bits");
  command->add_option("job", options->file, "Job specification, see configs/jobs/")
      ->required()
      ->type_name("JOB.toml");
  command
      ->add_option("--stages", options->stages,
                   "Placements of one run, as for `esctl run`; repeat the option for each run. "
                   "With --steps, DEVICES alone is one stage of all steps")
      ->required()
      ->allow_extra_args(false)
      ->type_name("STAGES");
  command->add_option("--steps", options->steps, "Global steps of each run")->type_name("N");
  command
      ->add_option("--level", options->level,
                   "Determinism level instead of that of the job file; auto = D2 if it costs "
                   "little, otherwise D1")
      ->type_name("D0|D1|D2|auto");
  command->add_flag("--quiet", options->quiet, "Show no progress, only the result");
  add_json_option(*command, options->json);
  command->footer(
      "Exit status 0: all runs have the same bits. 1: they differ, or a run failed.\n"
      "Example:\n  esctl verify configs/jobs/tiny_resnet18.toml --steps 4 --level D2 \\\n"
      "      --stages cpu-avx2:2 --stages cpu-scalar:1@2,cpu-avx2:1@2");
  command->callback([options, &shell] {
    shell.exit_code = finish(verify(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
