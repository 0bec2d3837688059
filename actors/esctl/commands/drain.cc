// esctl drain: jobs leave a node, now or before it will be gone.
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct DrainOptions {
  HeadOptions head;
  std::string node;
  std::uint64_t seconds = 0;
  bool cancel = false;
  bool json = false;
};

std::string drain_text(const DrainOptions& options) {
  const std::string node = "node " + options.node;
  if (options.cancel) return node + ": jobs may use it again\n";
  if (options.seconds == 0) return node + ": jobs leave it at their next step boundary\n";
  return node + " will be gone in " + std::to_string(options.seconds) +
         " s: no job is given more of its devices, and jobs leave it in time\n";
}

Status drain(const DrainOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done =
      (*client)->ask<wire::Done, wire::VacateNode>({}, [&](wire::VacateNode::Builder b) {
        b.setNode(options.node);
        b.setSeconds(static_cast<double>(options.seconds));
        b.setCancel(options.cancel);
      });
  if (!done) return done.error();
  if (!options.json)
    console.out << drain_text(options);
  else if (options.cancel)
    console.out << fields_json({{"node", options.node}, {"state", "alive"}}) << "\n";
  else
    console.out << fields_json({{"node", options.node}, {"seconds", options.seconds}}) << "\n";
  return {};
}

}  // namespace

void add_drain_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App* command =
      app.add_subcommand("drain", "Let jobs leave a node, now or before it will be gone");
  command->add_option("node", options->node, "Name of the node")->required()->type_name("NODE");
  auto* in = command->add_option("--in", options->seconds,
                                 "Seconds until the node will be gone (default: jobs leave now)");
  in->check(CLI::Range(0, 10'000'000))->type_name("SECONDS");
  command->add_flag("--cancel", options->cancel, "Jobs may use the node again")->excludes(in);
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Jobs move to other devices at a step boundary; a job that has none is saved and waits.\n"
      "With --in jobs train on until half of the time is left, at most 30 s. This is the notice\n"
      "that a spot machine gets: call it from the script that your provider runs. When the node\n"
      "is gone, a node of its name is a new one. Without --in nothing runs there until --cancel,\n"
      "also after a restart of the node or of the head.\n"
      "Examples:\n"
      "  esctl drain n2 --in 120\n"
      "  esctl drain n2 --cancel");
  command->callback([options, &shell] {
    shell.exit_code = finish(drain(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
