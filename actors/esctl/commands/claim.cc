// esctl claim, claims, release: devices for a serving job outside of EasyScale.
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/claims_view.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

struct ClaimOptions {
  HeadOptions head;
  std::string name, type;
  std::uint32_t count = 0;
  bool json = false;
};

Result<std::vector<ClaimView>> list_claims(Client& client) {
  auto list = list_nodes(client);
  if (!list) return list.error();
  return std::move(list->claims);
}

// Prints the jobs that have to leave. If a job is known to be unable to leave, it prints the
// reason.
Status say_what_it_waits_for(Client& client, const std::string& name, Console& console) {
  const auto all = list_claims(client);
  if (!all) return all.error();
  for (const ClaimView& claim : *all)
    if (claim.name == name) console.out << claim_waits_text(claim);
  return {};
}

Status claim(const ClaimOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done =
      (*client)->ask<wire::Done, wire::ClaimDevices>({}, [&](wire::ClaimDevices::Builder b) {
        b.setName(options.name);
        b.setDeviceType(options.type);
        b.setCount(options.count);
      });
  if (!done) return done.error();
  const std::uint64_t count = options.count;
  const bool is_new = !options.type.empty();
  if (options.json && is_new)
    console.out << fields_json({{"claim", options.name}, {"type", options.type}, {"count", count}})
                << "\n";
  else if (options.json)
    console.out << fields_json({{"claim", options.name}, {"count", count}}) << "\n";
  else
    console.out << "claim " << options.name << ": " << count
                << (is_new ? " of " + options.type : std::string(" from now on"))
                << "; training jobs leave at their next step boundary (esctl claims)\n";
  return options.json ? Status() : say_what_it_waits_for(**client, options.name, console);
}

Status release(const ClaimOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done = (*client)->ask<wire::Done, wire::ReleaseClaim>(
      {}, [&](wire::ReleaseClaim::Builder b) { b.setName(options.name); });
  if (!done) return done.error();
  if (options.json)
    console.out << fields_json({{"released", options.name}}) << "\n";
  else
    console.out << "claim " << options.name << " is released; training jobs may use its devices\n";
  return {};
}

struct ListOptions {
  HeadOptions head;
  bool json = false;
};

Status claims(const ListOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto all = list_claims(**client);
  if (!all) return all.error();
  console.out << (options.json ? claims_json(*all) + "\n" : claims_text(*all));
  return {};
}

}  // namespace

void add_claims_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand(
      "claims", "List claims, with the devices that they ask for and those that they have");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "A claim gets free devices at once, and devices of training jobs at their next step "
      "boundary.\n"
      "Below the table are the jobs for which it waits, and the reason if one cannot leave.\n"
      "Example:\n"
      "  esctl claims --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(claims(*options, shell.console), options->json, shell.console);
  });
}

void add_claim_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ClaimOptions>();
  CLI::App* command = app.add_subcommand(
      "claim", "Take devices for a serving job; training jobs leave at their next step boundary");
  command
      ->add_option("--type", options->type,
                   "Device type of a new claim; without it, --count is the new size of claim NAME")
      ->type_name("TYPE");
  command->add_option("--count", options->count, "Number of devices")->required()->type_name("N");
  command->add_option("--name", options->name, "Name of the claim, also for esctl release")
      ->required()
      ->type_name("NAME");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "The claim stays until it is released, also after a restart of the head. Its devices\n"
      "belong to claim:NAME. A claim of more devices than the cluster has, or than\n"
      "easyscaled --claim-quota allows, is refused.\n"
      "Devices that a claim gives up by a smaller --count are free for training jobs at once.\n"
      "Example:\n"
      "  esctl claim --type cpu-avx2 --count 2 --name serving\n"
      "  esctl claim --name serving --count 3");
  command->callback([options, &shell] {
    shell.exit_code = finish(claim(*options, shell.console), options->json, shell.console);
  });
}

void add_release_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ClaimOptions>();
  CLI::App* command =
      app.add_subcommand("release", "Give the devices of a claim back to training jobs");
  command->add_option("name", options->name, "Name of the claim")->required()->type_name("CLAIM");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->callback([options, &shell] {
    shell.exit_code = finish(release(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
