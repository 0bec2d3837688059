#pragma once
// The answer to ReadLedger: a part of the ledger of a job, small enough for one frame.
#include <optional>
#include <string>
#include <vector>

#include "actors/head/head_store.h"
#include "proto/messages.h"

namespace es::actors {

struct LedgerPart {
  std::string spec_toml;
  std::string start_checkpoint;
  std::vector<store::LedgerLine> lines;
  // Where the next part begins. A client may ask for more versions than the ledger has. Then the
  // last part with lines still names a next version, and the part for it is empty and names none,
  // which ends the series.
  std::optional<Version> next;
};

// The versions begin .. end - 1, or the first of them. No value: there is no such job. Error: the
// store cannot be read.
Result<std::optional<LedgerPart>> ledger_part(HeadStore& store, const JobId& job, Version begin,
                                              Version end);
void put(wire::LedgerPart::Builder b, const LedgerPart& part);

}  // namespace es::actors
