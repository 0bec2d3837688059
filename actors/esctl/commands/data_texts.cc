#include "actors/esctl/commands/data_parts.h"

#include <nlohmann/json.hpp>

#include <memory>

#include "actors/esctl/client/encoded_texts.h"
#include "actors/esctl/client/job_request.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/json_text.h"

namespace es::actors::esctl {
namespace {

struct RemoveOptions {
  std::string job;
  bool all = false;
  bool json = false;
};

nlohmann::ordered_json json_list(const std::vector<EncodedTexts>& texts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EncodedTexts& each : texts)
    list.push_back({{"directory", each.directory.string()}, {"bytes", each.bytes}});
  return list;
}

void print_removed(const std::vector<EncodedTexts>& removed, const std::vector<EncodedTexts>& kept,
                   bool json, Console& console) {
  if (json) {
    const nlohmann::ordered_json all{{"removed", json_list(removed)}, {"kept", json_list(kept)}};
    console.out << json_text(all) << "\n";
    return;
  }
  for (const auto& [what, list] : {std::pair{"removed", &removed}, std::pair{"kept   ", &kept}})
    for (const EncodedTexts& each : *list)
      console.out << what << "  " << each.directory.string() << "  " << each.bytes << " bytes\n";
  if (removed.empty()) console.out << "nothing to remove\n";
}

Status remove_texts(const RemoveOptions& options, Console& console) {
  const auto spec = read_with_absolute_paths(options.job);
  if (!spec) return spec.error();
  if (spec->data.kind != "texts")
    return usage_error(options.job + ": data.kind = \"" + spec->data.kind +
                       "\": allowed is \"texts\", whose jobs have encoded texts");
  auto found = encoded_texts(options.job, options.all ? nullptr : &*spec);
  if (!found) return found.error();
  std::vector<EncodedTexts> removed, kept;
  for (EncodedTexts& each : *found) (each.current ? kept : removed).push_back(std::move(each));
  ES_RETURN_IF_ERROR(remove_encoded_texts(options.job, removed));
  print_removed(removed, kept, options.json, console);
  return {};
}

}  // namespace

void add_data_remove(CLI::App& data, Shell& shell) {
  auto options = std::make_shared<RemoveOptions>();
  CLI::App* command = data.add_subcommand(
      "remove", "Remove the encoded texts of a job file with data.kind = \"texts\"");
  command->add_option("job", options->job, "The job file")->required()->type_name("JOB.toml");
  command->add_flag("--all", options->all,
                    "Also those that belong to the texts as they are now; the next run encodes "
                    "them again");
  add_json_option(*command, options->json);
  command->footer(
      "A job that trains, or that will continue from a checkpoint, needs the encoded texts with "
      "which it began.\n"
      "Example:\n  esctl data remove job.toml");
  command->callback([options, &shell] {
    shell.exit_code = finish(remove_texts(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
