// esctl checkpoint ls | verify | prune: the checkpoints in a directory.
#include <filesystem>
#include <set>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/catalog_view.h"
#include "store/checkpoint/catalog.h"
#include "store/checkpoint/removal.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using store::Catalog;
using store::CatalogEntry;
using store::CatalogSkip;

struct CheckpointFilesOptions {
  HeadOptions head;
  std::string place;  // a directory, or for ls the id of a job
  std::size_t keep = 0;
  bool dry_run = false;
  bool json = false;
};

// Returns the directory in which the job writes its own checkpoints.
Result<fs::path> directory_of(const CheckpointFilesOptions& options) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto details = describe_job(**client, options.place);
  if (!details) return details.error();
  const auto spec = parse_job(details->spec_toml, "job " + options.place);
  if (!spec) return spec.error();
  if (spec->checkpoint.directory.empty())
    return not_found(
        "job " + options.place +
        ": this job writes no series of checkpoints (see [checkpoint] in its specification)");
  return fs::path(spec->checkpoint.directory) / details->job.id;
}

Status list(const CheckpointFilesOptions& options, Console& console) {
  if (options.place.empty())
    return usage_error(
        "checkpoint ls: an argument is missing; allowed is a directory with checkpoints in it, or "
        "the id of a job that writes a series of checkpoints (see [checkpoint] in its "
        "specification)");
  std::error_code code;
  fs::path directory = options.place;
  const bool is_path = options.place.find('/') != std::string::npos || fs::exists(directory, code);
  if (!is_path) {
    const Result<fs::path> found = directory_of(options);
    if (!found) return found.error();
    directory = *found;
  }
  const auto catalog = store::list_checkpoints(directory, false);
  if (!catalog) return catalog.error();
  const std::vector<CatalogEntry>& entries = catalog->entries;
  console.out << (options.json ? catalog_json(entries, false) + "\n"
                               : catalog_text(entries, false));
  for (const CatalogEntry& entry : entries)
    if (!entry.damage.empty()) console.err << "esctl: " << entry.damage << std::endl;
  for (const CatalogSkip& skip : catalog->skipped)
    console.err << "esctl: skipped " << skip.why << std::endl;
  return {};
}

Result<Catalog> verified_in(const std::string& directory) {
  if (directory.empty())
    return usage_error(
        "checkpoint: an argument is missing; allowed is a checkpoint, or a directory with "
        "checkpoints in it");
  auto catalog = store::list_checkpoints(directory, true);
  if (catalog && catalog->entries.empty() && catalog->skipped.empty())
    return not_found(directory + ": there is no checkpoint in it");
  return catalog;
}

// Reports every damage and every directory that could not be examined. The exit code says whether
// there was any.
int report_damage(const std::vector<CatalogEntry>& entries, const std::vector<CatalogSkip>& skipped,
                  Console& console) {
  int code = 0;
  for (const CatalogEntry& entry : entries)
    if (!entry.damage.empty()) code = report(failure(entry.damage), false, console);
  for (const CatalogSkip& skip : skipped) {
    if (skip.unreadable) {
      code = report(failure(skip.why), false, console);
    } else {
      console.err << "esctl: skipped " << skip.why << std::endl;
    }
  }
  return code;
}

Result<int> verify(const CheckpointFilesOptions& options, Console& console) {
  const auto catalog = verified_in(options.place);
  if (!catalog) return catalog.error();
  console.out << (options.json ? catalog_json(catalog->entries, true) + "\n"
                               : catalog_text(catalog->entries, true));
  return report_damage(catalog->entries, catalog->skipped, console);
}

// Removes one entry. An error is recorded, and the other entries are still processed.
void remove_entry(const CatalogEntry& entry, Pruned& pruned) {
  if (!pruned.dry_run) {
    const auto others = store::remove_checkpoint(store::posix_file_system(), entry.directory);
    if (!others) return pruned.failed.push_back(others.error().message);
    if (!others->empty()) pruned.stays.push_back(store::stays_text(entry.directory, *others));
  }
  pruned.removed.push_back(entry);
}

void remove_unfinished(const std::set<fs::path>& parents, Pruned& pruned) {
  for (const fs::path& parent : parents) {
    auto leftovers = store::find_leftovers(parent, store::process_exists);
    if (!leftovers) {
      pruned.failed.push_back(leftovers.error().message);
      continue;
    }
    store::LeftoversRemoved done{*std::move(leftovers), {}, {}};
    if (!pruned.dry_run) done = store::remove_leftovers(store::posix_file_system(), done.removed);
    pruned.leftovers.insert(pruned.leftovers.end(), done.removed.begin(), done.removed.end());
    pruned.stays.insert(pruned.stays.end(), done.stays.begin(), done.stays.end());
    pruned.failed.insert(pruned.failed.end(), done.failed.begin(), done.failed.end());
  }
}

Pruned prune_catalog(const Catalog& catalog, const CheckpointFilesOptions& options) {
  const std::vector<std::size_t> beyond = store::beyond_newest(catalog.entries, options.keep);
  const std::set<std::size_t> to_remove(beyond.begin(), beyond.end());
  Pruned pruned;
  pruned.dry_run = options.dry_run;
  std::set<fs::path> parents;
  for (std::size_t i = 0; i < catalog.entries.size(); ++i) {
    const CatalogEntry& entry = catalog.entries[i];
    parents.insert(entry.directory.parent_path());
    if (to_remove.contains(i)) {
      remove_entry(entry, pruned);
    } else {
      (entry.damage.empty() ? pruned.kept : pruned.damaged).push_back(entry);
    }
  }
  remove_unfinished(parents, pruned);
  for (const CatalogSkip& skip : catalog.skipped)
    if (!skip.unreadable) pruned.skipped.push_back(skip.why);
  return pruned;
}

Result<int> prune(const CheckpointFilesOptions& options, Console& console) {
  const auto catalog = verified_in(options.place);
  if (!catalog) return catalog.error();
  std::error_code code;
  if (catalog->entries.size() == 1 &&
      fs::equivalent(catalog->entries.front().directory, options.place, code))
    return usage_error(options.place +
                       ": is a checkpoint; allowed is a directory with checkpoints in it");
  const Pruned pruned = prune_catalog(*catalog, options);
  console.out << (options.json ? pruned_json(pruned) + "\n" : pruned_text(pruned));
  std::vector<CatalogSkip> unreadable = catalog->skipped;
  std::erase_if(unreadable, [](const CatalogSkip& skip) { return !skip.unreadable; });
  int ended = report_damage(pruned.damaged, unreadable, console);
  for (const std::string& line : pruned.failed) ended = report(failure(line), false, console);
  return ended;
}

template <class Run>
CLI::App* add_command(CLI::App& parent, Shell& shell, const char* name, const char* description,
                      Run run, const std::shared_ptr<CheckpointFilesOptions>& options) {
  CLI::App* command = parent.add_subcommand(name, description);
  add_json_option(*command, options->json);
  command->callback([options, run, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
  return command;
}

}  // namespace

void add_checkpoint_file_commands(CLI::App& checkpoint, Shell& shell) {
  auto options = std::make_shared<CheckpointFilesOptions>();
  CLI::App* command = add_command(checkpoint, shell, "ls", "List checkpoints", list, options);
  command
      ->add_option("place", options->place,
                   "A directory, or a job that writes a series of checkpoints")
      ->type_name("DIR|JOB");
  add_head_options(*command, options->head);

  options = std::make_shared<CheckpointFilesOptions>();
  command = add_command(checkpoint, shell, "verify",
                        "Read every block of the checkpoints in a directory; exit code 1 when one "
                        "is damaged",
                        verify, options);
  command->add_option("directory", options->place, "A checkpoint, or a directory of them")
      ->required()
      ->type_name("DIR");

  options = std::make_shared<CheckpointFilesOptions>();
  command = add_command(
      checkpoint, shell, "prune",
      "Remove all but the newest undamaged checkpoints of each run of a job in a directory, by the "
      "time at which they were written. A damaged checkpoint does not count and is not removed; no "
      "symbolic link is followed, and other files stay",
      prune, options);
  command->add_option("directory", options->place, "A directory of checkpoints")
      ->required()
      ->type_name("DIR");
  command->add_option("--keep", options->keep, "Number of checkpoints that stay")
      ->required()
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  command->add_flag("--dry-run", options->dry_run,
                    "Print what would be removed, and remove nothing");
}

}  // namespace es::actors::esctl
