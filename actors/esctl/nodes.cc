#include "actors/esctl/commands.h"
#include "actors/esctl/options.h"
#include "actors/esctl/render_json.h"
#include "actors/esctl/render_text.h"

namespace es::actors::esctl {
namespace {

struct Options {
  HeadOptions head;
  bool json = false;
};

Status nodes(const Options& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto list =
      (*client)->ask<wire::NodeList, wire::ListNodes>({}, [](wire::ListNodes::Builder) {});
  if (!list) return list.error();
  const auto all = list->decode(read_nodes);
  if (!all) return all.error();
  console.out << (options.json ? nodes_json(*all) + "\n" : nodes_text(*all));
  return {};
}

}  // namespace

void add_nodes_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("nodes", "List nodes, their devices and how many are in use");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl nodes --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(nodes(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
