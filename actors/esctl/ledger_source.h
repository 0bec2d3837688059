#pragma once
// Where a ledger comes from: a job that the head knows, running or over, or a file that `esctl
// ledger --out` wrote. Either can be given wherever a ledger is compared.
#include <string>

#include "actors/esctl/client.h"
#include "actors/esctl/options.h"
#include "proto/base/job_spec.h"
#include "store/ledger/ledger_file.h"

namespace es::actors::esctl {

// Digest of the fields of a spec that decide the bits of its result: two ledgers with different
// ones need not agree.
Digest bits_digest(const JobSpec& spec);

// The whole ledger of a job. Errors: of Client; not found.
Result<store::LedgerFile> read_ledger(Client& client, const JobId& job);

// `name`: an existing file, else a job of the head. Errors: of read_ledger; usage (the file).
Result<store::LedgerFile> open_ledger(const std::string& name, const HeadOptions& head);

// Errors: refused (the file exists), failure (disk; nothing is left).
Status write_ledger_file(const store::LedgerFile& ledger, const std::string& path);

}  // namespace es::actors::esctl
