// esctl queues: the queues of the head.
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/queues_view.h"

namespace es::actors::esctl {
namespace {

struct QueuesOptions {
  HeadOptions head;
  bool json = false;
};

Status queues(const QueuesOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto list = list_nodes(**client);
  if (!list) return list.error();
  console.out << (options.json ? queues_json(list->queues) + "\n" : queues_text(list->queues));
  return {};
}

}  // namespace

void add_queues_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<QueuesOptions>();
  CLI::App* command = app.add_subcommand(
      "queues", "Show the tree of queues, with what each has and is entitled to");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "A queue is entitled to its guarantee, and by its weight to a part of the devices that no\n"
      "guarantee needs, as far as its jobs could use them. What it has beyond that is borrowed:\n"
      "jobs of other queues take it back. LIMIT is the guarantee and what it may borrow.\n"
      "RUNNING and WAITING are its jobs with and without devices.\n"
      "Example:\n"
      "  esctl queues --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(queues(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
