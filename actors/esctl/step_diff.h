#pragma once
// `esctl diff --deep`: runs the steps up to the first differing one again, once as A and once as B,
// and names the first result that differs. Each side is a process of its own (`esctl trace-step`),
// since a process serves the vendor kernels of one class only.
#include <optional>
#include <string>

#include "actors/esctl/ledger_diff.h"
#include "actors/worker/step_trace.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

struct DeepDiff {
  bool found = false;
  std::string what;  // the result: an operator's output, the gradient or the update of a parameter
  std::string a, b;  // device types that the two sides ran on
  std::string digest_a, digest_b;
  // What the re-runs say about themselves, e.g. that a ledger cannot be repeated; may be empty.
  std::string remark;
};
std::string deep_text(const DeepDiff& deep);

// The first line in which two traces differ. REQUIRES: of one graph.
DeepDiff compare(const worker::StepTrace& a, const worker::StepTrace& b);

struct DeepOptions {
  std::string class_a, class_b;  // device types; empty: as the ledger says
  std::string self;              // this program
};

// Errors: usage (a ledger that does not say on what it ran, and no class given); what a re-run
// says.
Result<DeepDiff> diff_step(const store::LedgerFile& a, const store::LedgerFile& b, Version version,
                           const DeepOptions& options);

}  // namespace es::actors::esctl
