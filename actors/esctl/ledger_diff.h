#pragma once
// The comparison of ledgers: pure.
#include <optional>
#include <string>
#include <vector>

#include "store/ledger/ledger_file.h"

namespace es::actors::esctl {

// The first version at which two ledgers part.
struct LedgerDifference {
  Version version = 0;                   // made by step version - 1
  std::vector<VirtualRank> losses;       // ranks whose losses differ, ascending
  bool digests = false;                  // of the parameters
  const store::LedgerLine* a = nullptr;  // the lines, of the ledgers that were compared
  const store::LedgerLine* b = nullptr;
};

struct LedgerComparison {
  Version compared = 0;  // versions that both have
  std::optional<LedgerDifference> first;
  // Versions that only one of the two has, among those before `first` (or all).
  Version only_a = 0;
  Version only_b = 0;
  bool equal() const { return !first && only_a == 0 && only_b == 0; }
};

LedgerComparison compare(const store::LedgerFile& a, const store::LedgerFile& b);

// "step 3: losses of ESTs 1, 2; digest of the parameters"
std::string difference_text(const LedgerDifference& difference);

}  // namespace es::actors::esctl
