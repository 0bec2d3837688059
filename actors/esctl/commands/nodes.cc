#include <charconv>

#include "actors/base/protocol/core/messages.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

struct NodesOptions {
  HeadOptions head;
  std::string clear;
  bool json = false;
};

// Reads "NODE/TYPE:INDEX", the form that DeviceId::text() writes.
Result<DeviceId> parse_device(const std::string& text) {
  const std::size_t slash = text.find('/'), colon = text.rfind(':');
  DeviceId device;
  const char* end = text.data() + text.size();
  const bool cut = slash != std::string::npos && colon != std::string::npos && slash < colon;
  if (cut && std::from_chars(text.data() + colon + 1, end, device.index).ptr == end) {
    device.node = text.substr(0, slash);
    device.type.name = text.substr(slash + 1, colon - slash - 1);
    if (device.text() == text) return device;
  }
  return usage_error("--clear " + text + ": allowed is NODE/TYPE:INDEX, e.g. local/cpu-avx2:0");
}

Status clear(Client& client, const std::string& text) {
  const auto device = parse_device(text);
  if (!device) return device.error();
  const auto done =
      client.ask<wire::Done, wire::ClearDevice>({}, [&](wire::ClearDevice::Builder b) {
        b.initDevice().setNode(device->node);
        b.getDevice().setType(device->type.name);
        b.getDevice().setIndex(device->index);
      });
  return done ? Status() : done.error();
}

Status nodes(const NodesOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  if (!options.clear.empty()) ES_RETURN_IF_ERROR(clear(**client, options.clear));
  const auto list = list_nodes(**client);
  if (!list) return list.error();
  if (options.json)
    console.out << nodes_json(list->nodes, list->warning) << "\n";
  else
    print(coloured(nodes_text(list->nodes, out_columns(console)) + warning_text(list->warning)),
          console);
  return {};
}

}  // namespace

void add_nodes_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<NodesOptions>();
  CLI::App* command =
      app.add_subcommand("nodes", "List nodes, their devices and how many are in use");
  command
      ->add_option(
          "--clear", options->clear,
          "First clear this device, which an audit has found wrong, so that it is used again")
      ->type_name("NODE/TYPE:INDEX");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl nodes --json\n  esctl nodes --clear local/cpu-avx2:0");
  command->callback([options, &shell] {
    shell.exit_code = finish(nodes(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
