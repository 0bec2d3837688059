#pragma once
// The output for ledgers, for their comparison and for the first operator that differs.
#include <optional>
#include <string>
#include <vector>

#include "actors/views/ledger_diff.h"
#include "actors/views/step_diff.h"

namespace es::actors {

std::string ledger_text(const store::LedgerFile& ledger);
std::string ledger_json(const store::LedgerFile& ledger);

// The result of `esctl diff`. `notes` are facts about the two ledgers that the reader should know,
// one line each.
struct DiffView {
  const store::LedgerFile& a;
  const store::LedgerFile& b;
  LedgerComparison comparison;
  std::vector<std::string> notes = {};
  std::optional<DeepDiff> deep = {};
};
std::string diff_text(const DiffView& view);
std::string diff_json(const DiffView& view);

// One run of `esctl verify`.
struct VerifiedRun {
  std::string stages;
  store::LedgerFile ledger;
  std::string params_digest, state_digest;  // at the end
  // The first step, or the state at the end, that differs from the first run; empty if nothing
  // differs.
  std::string difference = {};
};
std::string verify_text(const std::vector<VerifiedRun>& runs);
std::string verify_json(const std::vector<VerifiedRun>& runs);
bool all_identical(const std::vector<VerifiedRun>& runs);

}  // namespace es::actors
