#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/ledger_view.h"

namespace es::actors::esctl {
namespace {

struct LedgerOptions {
  HeadOptions head;
  std::string job;
  Version from = 0;
  Version to = 0;  // 0 means the last version
  std::string out;
  bool json = false;
};

Status ledger(const LedgerOptions& options, Console& console) {
  if (options.to != 0 && options.from > options.to)
    return usage_error("--from = " + std::to_string(options.from) +
                       ": allowed is at most --to = " + std::to_string(options.to));
  auto whole = open_ledger(options.job, options.head);
  if (!whole) return whole.error();
  std::erase_if(whole->lines, [&](const store::LedgerLine& line) {
    return line.version < options.from || (options.to != 0 && line.version > options.to);
  });
  if (!options.out.empty()) return write_ledger_file(*whole, options.out);
  console.out << (options.json ? ledger_json(*whole) + "\n" : ledger_text(*whole));
  return {};
}

}  // namespace

void add_ledger_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<LedgerOptions>();
  CLI::App* command = app.add_subcommand(
      "ledger", "Show, step by step, the losses of a job's ESTs and the digest of its parameters");
  command->add_option("job", options->job, "Id of a running or ended job, or a ledger file")
      ->required()
      ->type_name("JOB|FILE");
  command->add_option("--from", options->from, "First step to show")->type_name("N");
  command->add_option("--to", options->to, "Last step to show")->type_name("N");
  command
      ->add_option("--out", options->out,
                   "Write the ledger to this new file, which esctl diff accepts too")
      ->type_name("FILE");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Step N is the one that made version N of the parameters.\n"
      "Example:\n  esctl ledger resnet18-1 --from 10 --to 20\n"
      "  esctl ledger resnet18-1 --out resnet18.ledger");
  command->callback([options, &shell] {
    shell.exit_code = finish(ledger(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
