#pragma once
// How ledgers, their comparison and the first differing operator are shown.
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/ledger_diff.h"
#include "actors/esctl/step_diff.h"

namespace es::actors::esctl {

std::string ledger_text(const store::LedgerFile& ledger);
std::string ledger_json(const store::LedgerFile& ledger);

// What `esctl diff` found. `notes`: what a reader should know of the two, one line each.
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
  // The first step that differs from the first run's, or the state at the end; empty: all the same.
  std::string difference = {};
};
std::string verify_text(const std::vector<VerifiedRun>& runs);
std::string verify_json(const std::vector<VerifiedRun>& runs);
bool all_identical(const std::vector<VerifiedRun>& runs);

}  // namespace es::actors::esctl
