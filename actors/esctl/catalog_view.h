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
  std::vector<store::CatalogEntry> kept, removed, damaged;
  std::size_t leftovers = 0;  // of writers that have died
};
std::string pruned_text(const Pruned& pruned);
std::string pruned_json(const Pruned& pruned);

}  // namespace es::actors::esctl
