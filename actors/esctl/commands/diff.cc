#include <filesystem>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/ledger_view.h"
#include "actors/views/step_diff.h"

namespace es::actors::esctl {
namespace {

struct DiffOptions {
  HeadOptions head;
  std::string a, b;
  DeepOptions deep_options;
  bool deep = false;
  bool json = false;
};

Result<int> diff(const DiffOptions& options, Console& console) {
  const auto a = open_ledger(options.a, options.head);
  if (!a) return a.error();
  const auto b = open_ledger(options.b, options.head);
  if (!b) return b.error();
  DiffView view{*a, *b, compare(*a, *b)};
  if (a->spec != b->spec)
    view.notes.push_back("the specifications differ in fields that decide the bits: A " +
                         a->spec.hex() + ", B " + b->spec.hex());
  if (options.deep && view.comparison.first) {
    DeepOptions deep = options.deep_options;
    std::error_code code;
    deep.self = std::filesystem::read_symlink("/proc/self/exe", code).string();
    auto found = diff_step(*a, *b, view.comparison.first->version, deep);
    if (!found) return found.error();
    view.deep = *std::move(found);
  }
  console.out << (options.json ? diff_json(view) + "\n" : diff_text(view));
  return view.comparison.equal() ? 0 : 1;
}

}  // namespace

void add_diff_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two runs step by step and name the first difference");
  command->add_option("a", options->a, "Job id or ledger file")->required()->type_name("A");
  command->add_option("b", options->b, "Job id or ledger file")->required()->type_name("B");
  command->add_flag("--deep", options->deep,
                    "Run the first differing step again, as A and as B, and name the first "
                    "operator, gradient or update whose bits differ");
  command
      ->add_option("--device-a", options->deep_options.class_a,
                   "Device type for the re-run of A (default: the one on which A ran)")
      ->type_name("TYPE");
  command
      ->add_option("--device-b", options->deep_options.class_b,
                   "Device type for the re-run of B (default: the one on which B ran)")
      ->type_name("TYPE");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Exit status 0: no difference. 1: a difference, or a failure.\n"
      "A re-run begins from the job's newest checkpoint before that step, or where the job began.\n"
      "Example:\n"
      "  esctl diff resnet18-1 resnet18-2\n"
      "  esctl diff monday.ledger resnet18-2 --deep");
  command->callback([options, &shell] {
    shell.exit_code = finish(diff(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
