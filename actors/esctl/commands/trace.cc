// `esctl trace`: what all processes of a job do in some steps, as a file for Perfetto.
#include "actors/esctl/client/trace_request.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/trace_file.h"

namespace es::actors::esctl {
namespace {

struct TraceCommand {
  TracedJob traced;
  std::string out;
};

Status record_trace(TraceCommand& command, Console& console) {
  if (command.out.empty()) command.out = command.traced.job + ".trace.json";
  ES_RETURN_IF_ERROR(check_new_file("--out", command.out));
  const auto trace = trace_of(command.traced);
  if (!trace) return trace.error();
  ES_RETURN_IF_ERROR(write_trace(command.out, *trace));
  console.out << (command.traced.json ? traced_json(command.out, *trace) + "\n"
                                      : traced_text(command.out, *trace));
  return {};
}

}  // namespace

void add_trace_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<TraceCommand>();
  CLI::App* command = app.add_subcommand(
      "trace", "Record what all processes of a running job do in the next steps, for Perfetto");
  add_trace_options(*command, options->traced,
                    "Number of global steps; each process records at most 200,000 spans");
  command
      ->add_option("--out", options->out,
                   "Write the trace into this new file; the default is JOB.trace.json")
      ->type_name("FILE");
  command->add_flag("--gpu-operators", options->traced.trace.all_operators,
                    "Record operators of GPUs too. A GPU then waits for each operator, so its "
                    "steps take longer");
  command->footer(
      "Open the file at https://ui.perfetto.dev, which reads it in the browser, or at\n"
      "chrome://tracing. The bits of the job do not change.\n"
      "Example:\n  esctl trace resnet18-1 --steps 20 --out trace.json");
  command->callback([options, &shell] {
    shell.exit_code =
        finish(record_trace(*options, shell.console), options->traced.json, shell.console);
  });
}

}  // namespace es::actors::esctl
