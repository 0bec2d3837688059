#pragma once
// Reads a ledger from a job that the head knows, running or over, or from a file that `esctl ledger
// --out` wrote. Commands that compare ledgers accept both.
#include <string>
#include <vector>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/options.h"
#include "proto/base/job_spec.h"
#include "store/ledger/ledger_file.h"

namespace es::actors::esctl {

// The digest of the fields of a spec that decide the bits of the result. Two ledgers with different
// digests need not be equal.
Digest bits_digest(const JobSpec& spec);

// Reads the lines of the versions from `begin` on that the job has by now. Errors: those of Client;
// not found.
Result<std::vector<store::LedgerLine>> read_ledger_lines(Client& client, const JobId& job,
                                                         Version begin);

// Reads the whole ledger of a job. Errors: those of Client; not found.
Result<store::LedgerFile> read_ledger(Client& client, const JobId& job);

// True if `name` is an existing file, and not a job.
bool is_ledger_file(const std::string& name);

// `name` is an existing file, or otherwise a job of the head. Errors: those of read_ledger; usage
// (the file is bad).
Result<store::LedgerFile> open_ledger(const std::string& name, const HeadOptions& head);

// Errors: refused (the file exists), failure (the disk; then no file is left).
Status write_ledger_file(const store::LedgerFile& ledger, const std::string& path);

}  // namespace es::actors::esctl
