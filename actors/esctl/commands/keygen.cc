// CURVE keys: `esctl keygen` makes them, `esctl keys` lists and revokes those that are authorized.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/base/gateway/shell/keys.h"
#include "actors/base/program/private_directory.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/json_text.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

using access::KeyOwner;

struct KeygenOptions {
  std::string directory;
  std::string client, role, tenant, node;
  bool json = false;
};

struct KeysOptions {
  std::string directory, name;
  bool json = false;
};

Status check_key_name(const std::string& option, const std::string& name) {
  if (access::is_identity_name(name)) return {};
  return usage_error(option + " \"" + escaped(name) +
                     "\": allowed are 1 to 64 letters, digits, '-', '_' and '.'");
}

Status make_cluster_keys(const KeygenOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(create_cluster_keys(options.directory));
  const Result<ClusterKeys> keys = read_cluster_keys(options.directory);
  if (!keys) return keys.error();
  const Result<ClusterKeys> node = read_cluster_keys(options.directory, KeyUse::kNode);
  if (!node) return node.error();
  if (options.json)
    console.out << fields_json({{"directory", options.directory},
                                {"server_public", keys->server_public},
                                {"client_public", keys->client.public_key},
                                {"node_public", node->client.public_key}})
                << "\n";
  else
    console.out << "the keys of a new cluster are in " << options.directory
                << "\n"
                   "  client.key is the key of an administrator on this machine\n"
                   "  keys for others: esctl keygen --client NAME --role ROLE, or --node NAME\n";
  return {};
}

Result<KeyOwner> key_owner(const KeygenOptions& options) {
  if (!options.node.empty()) {
    if (!options.role.empty() || !options.tenant.empty())
      return usage_error("--role and --tenant: allowed only together with --client");
    ES_RETURN_IF_ERROR(check_key_name("--node", options.node));
    return KeyOwner{.name = options.node, .client = {}, .node = true};
  }
  ES_RETURN_IF_ERROR(check_key_name("--client", options.client));
  if (!options.tenant.empty()) ES_RETURN_IF_ERROR(check_key_name("--tenant", options.tenant));
  const auto role = access::parse_role(options.role);
  if (!role) return usage_error("--role: " + role.error().message);
  return KeyOwner{.name = options.client,
                  .client = access::Identity{options.client, *role, options.tenant},
                  .node = false};
}

Status keygen(const KeygenOptions& options, Console& console) {
  if (options.client.empty() && options.node.empty()) {
    if (!options.role.empty() || !options.tenant.empty())
      return usage_error("--role and --tenant: allowed only together with --client");
    return make_cluster_keys(options, console);
  }
  const auto owner = key_owner(options);
  if (!owner) return owner.error();
  const std::filesystem::path directory = options.directory;
  const std::filesystem::path place = directory / (owner->node ? "nodes" : "clients") / owner->name;
  ES_RETURN_IF_ERROR(create_owned_keys(directory, *owner, place));
  if (options.json)
    console.out << fields_json({{"directory", place.string()}, {"name", owner->name}}) << "\n";
  else
    console.out << "the directory " << place.string() << " is for " << owner->name
                << ": move it there, and keep no copy\n"
                   "  a running head admits the key within two seconds\n";
  return {};
}

std::string role_text(const KeyOwner& owner) {
  if (!owner.client) return "node";
  return std::string(role_name(owner.client->role)) + (owner.node ? "+node" : "");
}

Status list_keys(const KeysOptions& options, Console& console) {
  const auto authorized = std::filesystem::path(options.directory) / "authorized";
  std::error_code error;
  if (!std::filesystem::is_directory(authorized, error))
    return not_found("key directory " + escaped(options.directory) +
                     ": has no directory authorized; `esctl keygen` makes it");
  const auto keys = read_authorized(authorized);
  if (!keys) return keys.error();
  std::map<std::string, std::pair<KeyOwner, std::string>> by_name;
  for (const auto& [key, owner] : *keys) by_name[owner.name] = {owner, key};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows{{"NAME", "ROLE", "TENANT", "PUBLIC KEY"}};
  for (const auto& [name, entry] : by_name) {
    const auto& [owner, key] = entry;
    const std::string tenant = owner.client ? owner.client->tenant : "";
    list.push_back({{"name", name}, {"role", role_text(owner)}});
    list.back()["tenant"] =
        tenant.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(tenant);
    list.back()["public"] = key;
    rows.push_back({name, role_text(owner), tenant.empty() ? "-" : tenant, key});
  }
  console.out << (options.json ? json_text({{"keys", list}}) + "\n" : table(rows));
  return {};
}

Status revoke(const KeysOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(check_key_name("key", options.name));
  ES_RETURN_IF_ERROR(revoke_key(options.directory, options.name));
  if (options.json)
    console.out << json_text({{"revoked", options.name}}) << "\n";
  else
    console.out << options.name
                << " is revoked; a running head closes its connections within two seconds\n"
                   "  if it is a node's key, remove it from the key directories of the nodes too\n";
  return {};
}

}  // namespace

void add_keygen_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<KeygenOptions>();
  CLI::App* command = app.add_subcommand(
      "keygen", "Make the CURVE keys of a cluster that uses TCP, or a key for a client or a node");
  command
      ->add_option(
          "directory", options->directory,
          "The key directory of the cluster, which is new unless --client or --node is given")
      ->envname("ES_KEYS")
      ->required()
      ->type_name("DIR");
  auto* client = command->add_option("--client", options->client,
                                     "Make a key for this client, in DIR/clients/NAME");
  client->type_name("NAME");
  command
      ->add_option("--role", options->role,
                   "What the client may do: view, submit, operate or admin")
      ->type_name("ROLE");
  command
      ->add_option("--tenant", options->tenant,
                   "The client sees, changes and submits jobs of this tenant only")
      ->type_name("NAME");
  command->add_option("--node", options->node, "Make a key for this node, in DIR/nodes/NAME")
      ->type_name("NAME")
      ->excludes(client);
  add_json_option(*command, options->json);
  command->footer(
      "Secret keys are never printed.\nExamples:\n"
      "  esctl keygen keys\n"
      "  esctl keygen keys --client alice --role submit --tenant vision\n"
      "  esctl ps --head tcp://head.example:7070 --keys keys");
  command->callback([options, &shell] {
    shell.exit_code = finish(keygen(*options, shell.console), options->json, shell.console);
  });
}

void add_keys_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<KeysOptions>();
  CLI::App* command = app.add_subcommand("keys", "Who may connect to a head that uses TCP");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->add_option("--keys", options->directory, "The key directory of the head")
        ->envname("ES_KEYS")
        ->required()
        ->type_name("DIR");
    add_json_option(*sub, options->json);
    sub->callback([options, run, &shell] {
      shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
    });
    return sub;
  };
  add("ls", "List the authorized keys with their roles", list_keys);
  add("revoke", "Remove an authorized key", revoke)
      ->add_option("name", options->name, "Whose key it is")
      ->required()
      ->type_name("NAME");
}

}  // namespace es::actors::esctl
