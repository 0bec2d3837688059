// esctl checkpoint ls | verify | prune: the checkpoints that lie in a directory.
#include <filesystem>
#include <set>

#include "actors/config/job_file.h"
#include "actors/esctl/catalog_view.h"
#include "actors/esctl/commands.h"
#include "actors/esctl/options.h"
#include "actors/esctl/requests.h"
#include "store/checkpoint/catalog.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using store::CatalogEntry;

struct Options {
  HeadOptions head;
  std::string place;  // directory, or for ls the id of a job
  std::size_t keep = 0;
  bool json = false;
};

// Where the job writes its own checkpoints.
Result<fs::path> directory_of(const Options& options) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto details = describe_job(**client, options.place);
  if (!details) return details.error();
  const auto spec = parse_job(details->spec_toml, "job " + options.place);
  if (!spec) return spec.error();
  if (spec->checkpoint.directory.empty())
    return not_found("job " + options.place +
                     ": writes no checkpoints by itself (see [checkpoint] in its specification)");
  return fs::path(spec->checkpoint.directory) / options.place;
}

Status list(const Options& options, Console& console) {
  if (options.place.empty())
    return usage_error(
        "checkpoint ls: of what? Allowed is a directory with checkpoints in it, or the id of a job "
        "that writes its own (see [checkpoint] in its specification)");
  std::error_code code;
  fs::path directory = options.place;
  const bool is_path = options.place.find('/') != std::string::npos || fs::exists(directory, code);
  if (!is_path) {
    const Result<fs::path> found = directory_of(options);
    if (!found) return found.error();
    directory = *found;
  }
  const auto entries = store::list_checkpoints(directory, false);
  if (!entries) return entries.error();
  console.out << (options.json ? catalog_json(*entries, false) + "\n"
                               : catalog_text(*entries, false));
  for (const CatalogEntry& entry : *entries)
    if (!entry.damage.empty()) console.err << "esctl: " << entry.damage << std::endl;
  return {};
}

Result<std::vector<CatalogEntry>> verified_in(const std::string& directory) {
  auto entries = store::list_checkpoints(directory, true);
  if (entries && entries->empty()) return not_found(directory + ": there is no checkpoint in it");
  return entries;
}

// Says every damage; the exit code tells whether there is any.
int report_damage(const std::vector<CatalogEntry>& entries, Console& console) {
  int code = 0;
  for (const CatalogEntry& entry : entries)
    if (!entry.damage.empty()) code = report(failure(entry.damage), false, console);
  return code;
}

Result<int> verify(const Options& options, Console& console) {
  const auto entries = verified_in(options.place);
  if (!entries) return entries.error();
  console.out << (options.json ? catalog_json(*entries, true) + "\n"
                               : catalog_text(*entries, true));
  return report_damage(*entries, console);
}

Result<std::size_t> remove_leftovers_in(const std::set<fs::path>& parents) {
  std::size_t removed = 0;
  for (const fs::path& parent : parents) {
    const auto count =
        store::remove_leftovers(store::posix_file_system(), parent, store::process_exists);
    if (!count) return count.error();
    removed += *count;
  }
  return removed;
}

Result<int> prune(const Options& options, Console& console) {
  const auto entries = verified_in(options.place);
  if (!entries) return entries.error();
  if (entries->size() == 1 && fs::equivalent(entries->front().directory, options.place))
    return usage_error(options.place +
                       ": is a checkpoint; allowed is a directory with checkpoints in it");
  const std::vector<std::size_t> beyond = store::beyond_newest(*entries, options.keep);
  const std::set<std::size_t> to_remove(beyond.begin(), beyond.end());
  Pruned pruned;
  std::set<fs::path> parents;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const CatalogEntry& entry = (*entries)[i];
    parents.insert(entry.directory.parent_path());
    if (to_remove.contains(i))
      ES_RETURN_IF_ERROR(store::remove_checkpoint(store::posix_file_system(), entry.directory));
    (to_remove.contains(i)  ? pruned.removed
     : entry.damage.empty() ? pruned.kept
                            : pruned.damaged)
        .push_back(entry);
  }
  const auto leftovers = remove_leftovers_in(parents);
  if (!leftovers) return leftovers.error();
  pruned.leftovers = *leftovers;
  console.out << (options.json ? pruned_json(pruned) + "\n" : pruned_text(pruned));
  return report_damage(pruned.damaged, console);
}

template <class Run>
CLI::App* add_command(CLI::App& parent, Shell& shell, const char* name, const char* description,
                      Run run, const std::shared_ptr<Options>& options) {
  CLI::App* command = parent.add_subcommand(name, description);
  add_json_option(*command, options->json);
  command->callback([options, run, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
  return command;
}

}  // namespace

void add_checkpoint_file_commands(CLI::App& checkpoint, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(checkpoint, shell, "ls", "List checkpoints", list, options);
  command->add_option("place", options->place, "A directory, or a job that writes its own")
      ->type_name("DIR|JOB");
  add_head_options(*command, options->head);

  options = std::make_shared<Options>();
  command = add_command(checkpoint, shell, "verify",
                        "Read every block of the checkpoints in a directory; exit code 1 when one "
                        "is damaged",
                        verify, options);
  command->add_option("directory", options->place, "A checkpoint, or a directory of them")
      ->required()
      ->type_name("DIR");

  options = std::make_shared<Options>();
  command = add_command(checkpoint, shell, "prune",
                        "Remove all but the newest undamaged checkpoints of each job in a "
                        "directory; a damaged one neither counts nor goes",
                        prune, options);
  command->add_option("directory", options->place, "A directory of checkpoints")
      ->required()
      ->type_name("DIR");
  command->add_option("--keep", options->keep, "How many stay")
      ->required()
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
}

}  // namespace es::actors::esctl
