#pragma once
// The comparison of two ledgers. Pure functions.
#include <optional>
#include <string>
#include <vector>

#include "store/ledger/ledger_file.h"

namespace es::actors {

// The first version at which two ledgers differ.
struct LedgerDifference {
  Version version = 0;                   // made by step version - 1
  std::vector<VirtualRank> losses;       // ranks whose losses differ, in ascending order
  bool digests = false;                  // whether the digests of the parameters differ
  const store::LedgerLine* a = nullptr;  // the two lines, in the ledgers that were compared
  const store::LedgerLine* b = nullptr;
};

struct LedgerComparison {
  Version compared = 0;  // number of versions that both have
  std::optional<LedgerDifference> first;
  // The number of versions that only one of them has, before `first` if there is a difference.
  Version only_a = 0;
  Version only_b = 0;
  bool equal() const { return !first && only_a == 0 && only_b == 0; }
};

LedgerComparison compare(const store::LedgerFile& a, const store::LedgerFile& b);

// For example "step 3: losses of ESTs 1, 2; digest of the parameters".
std::string difference_text(const LedgerDifference& difference);

}  // namespace es::actors
