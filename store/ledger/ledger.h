#pragma once
// Ledger contains, for each job and global step, the loss of every EST and the digest of the
// parameters. It is the evidence of determinism: a step that is run again, after a loss or from a
// checkpoint, must give the same line bit by bit.
//
// Writes are buffered. A line that a power cut loses is computed again with the same bits. One
// thread of the head owns the ledger, because append() reads and then writes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

struct LedgerLine {
  Version version = 0;                  // the version that the step made: step t writes line t + 1
  std::vector<float> losses;            // by virtual rank; any bits, also NaN
  std::optional<Digest> params_digest;  // digest of that version; absent between digest intervals
};

// True if the versions, the bits of every loss and the digests are equal. So a NaN equals itself if
// its bits do, and +0 differs from -0.
bool same_bits(const LedgerLine& a, const LedgerLine& b);

std::string encode_ledger_line(const LedgerLine& line);
// Error (failure): the bytes were not written by encode_ledger_line.
Result<LedgerLine> decode_ledger_line(std::string_view bytes, Version version,
                                      const std::string& what);

class Ledger {
 public:
  // `store` must outlive this object.
  explicit Ledger(KeyValueStore& store) : store_(store) {}

  // Adds a line. It is no error if an equal line exists already. Error (failure): a different line
  // of that version exists and is kept; the message names the job, the step, and the first rank or
  // the digests that differ.
  Status append(const JobId& job, const LedgerLine& line);
  // The lines with versions in [begin, end), ascending, at most the first `most` of them. Versions
  // without a line are omitted. REQUIRES: most > 0.
  Result<std::vector<LedgerLine>> read(const JobId& job, Version begin, Version end,
                                       std::size_t most = SIZE_MAX) const;
  // The line with the highest version; nullopt if the ledger is empty.
  Result<std::optional<LedgerLine>> last(const JobId& job) const;
  // Durably removes the lines after this version, when an audit has found that they may be wrong.
  Status rewind(const JobId& job, Version through);
  // Adds the removal of all lines of the job to the batch.
  Status add_removal(const JobId& job, WriteBatch& batch) const;

 private:
  Status add_erased(const std::string& begin, const std::string& end, WriteBatch& batch) const;

  KeyValueStore& store_;
};

}  // namespace es::store
