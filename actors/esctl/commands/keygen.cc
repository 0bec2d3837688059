#include <filesystem>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/render_json.h"
#include "actors/gateway/shell/keys.h"

namespace es::actors::esctl {
namespace {

struct KeygenOptions {
  std::string directory;
  bool json = false;
};

Status keygen(const KeygenOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(create_cluster_keys(options.directory));
  const Result<ClusterKeys> keys = read_cluster_keys(options.directory);
  if (!keys) return keys.error();
  if (options.json)
    console.out << fields_json({{"directory", options.directory},
                                {"server_public", keys->server_public},
                                {"client_public", keys->client.public_key}})
                << "\n";
  else
    console.out
        << "the keys of a new cluster are in " << options.directory
        << "\n"
           "  a node needs a copy of server.key and server.pub, a client needs server.pub;\n"
           "  each machine has a client.key of its own, and its public half must be in the\n"
           "  directory authorized/ of every node\n";
  return {};
}

}  // namespace

void add_keygen_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<KeygenOptions>();
  CLI::App* command =
      app.add_subcommand("keygen", "Make the CURVE keys of a cluster that uses TCP");
  command->add_option("directory", options->directory, "The new key directory")
      ->required()
      ->type_name("DIR");
  add_json_option(*command, options->json);
  command->footer(
      "Secret keys are never printed.\nExample:\n"
      "  esctl keygen keys\n  esctl ps --head tcp://head.example:7070 --keys keys");
  command->callback([options, &shell] {
    shell.exit_code = finish(keygen(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
