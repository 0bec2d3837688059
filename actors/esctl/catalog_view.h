#pragma once
// What `esctl checkpoint ls`, `verify` and `prune` print.
#include <string>
#include <vector>

#include "store/checkpoint/catalog.h"

namespace es::actors::esctl {

// One line for each checkpoint: where it is, of which job and step, its size, whether it is whole.
// `verified`: all blocks were read, not only the manifest.
std::string catalog_text(const std::vector<store::CatalogEntry>& entries, bool verified);
std::string catalog_json(const std::vector<store::CatalogEntry>& entries, bool verified);

struct Pruned {
  bool dry_run = false;  // `removed` and `leftovers` would be, and are not
  std::vector<store::CatalogEntry> kept, removed, damaged;
  std::vector<std::filesystem::path> leftovers;  // of writers that have died, removed
  // One line each: what was not looked into; what stays since other files are in it; what could not
  // be removed.
  std::vector<std::string> skipped, stays, failed;
};
std::string pruned_text(const Pruned& pruned);
std::string pruned_json(const Pruned& pruned);

}  // namespace es::actors::esctl
