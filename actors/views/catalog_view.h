#pragma once
// The output of `esctl checkpoint ls`, `verify` and `prune`.
#include <string>
#include <vector>

#include "store/checkpoint/catalog.h"

namespace es::actors {

// One line for each checkpoint: its path, job, step and size, and whether it is
// undamaged. `verified` means that all blocks were read, and not only the manifest.
std::string catalog_text(const std::vector<store::CatalogEntry>& entries, bool verified);
std::string catalog_json(const std::vector<store::CatalogEntry>& entries, bool verified);

struct Pruned {
  bool dry_run = false;  // nothing is removed; `removed` and `leftovers` are what would be
  std::vector<store::CatalogEntry> kept, removed, damaged;
  std::vector<std::filesystem::path> leftovers;  // removed remains of writers that have died
  // One line each: directories that were not examined; those that stay because they contain other
  // files; those that could not be removed.
  std::vector<std::string> skipped, stays, failed;
};
std::string pruned_text(const Pruned& pruned);
std::string pruned_json(const Pruned& pruned);

}  // namespace es::actors
