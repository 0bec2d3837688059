#pragma once
// `esctl diff --deep`: runs the steps up to the first differing one again, once for A and once for
// B, and finds the first result that differs. Each side is a process of its own (`esctl
// trace-step`), since a process can serve the vendor kernels of only one class.
#include <optional>
#include <string>

#include "actors/views/ledger_diff.h"
#include "actors/worker/state/step_trace.h"
#include "proto/base/result.h"

namespace es::actors {

struct DeepDiff {
  bool found = false;
  std::string what;  // the result: an operator's output, or the gradient or update of a parameter
  std::string a, b;  // the device types of the two sides
  std::string digest_a, digest_b;
  // Remarks on the repeated runs, for example that a ledger cannot be repeated; may be empty.
  std::string remark;
};
std::string deep_text(const DeepDiff& deep);

// Returns the first line in which two traces differ. REQUIRES: both traces are of one graph.
DeepDiff compare(const worker::StepTrace& a, const worker::StepTrace& b);

struct DeepOptions {
  std::string class_a, class_b;  // device types; if empty, those in the ledger
  std::string self;              // the path of this program
};

// Errors: usage (the ledger does not name its devices and no class is given), and the errors of a
// repeated run.
Result<DeepDiff> diff_step(const store::LedgerFile& a, const store::LedgerFile& b, Version version,
                           const DeepOptions& options);

}  // namespace es::actors
