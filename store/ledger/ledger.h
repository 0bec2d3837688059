#pragma once
// Ledger: per job and global step, the loss of every EST and the digest of the parameters. It is
// the witness of determinism: a step that is run again (after a loss, or from a checkpoint) must
// give the line that is already there, bit by bit.
//
// Writes are buffered: a line that a power cut takes away is computed again, with the same bits.
// Owned by one thread of the head: append reads, then writes.
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
  std::vector<float> losses;            // by virtual rank; any bits, NaN too
  std::optional<Digest> params_digest;  // of that version; absent between digest intervals
};

// Same version, same bits of every loss (so NaN equals itself, +0 differs from -0), same digest.
bool same_bits(const LedgerLine& a, const LedgerLine& b);

std::string encode_ledger_line(const LedgerLine& line);
// Error (failure): not what encode_ledger_line wrote.
Result<LedgerLine> decode_ledger_line(std::string_view bytes, Version version,
                                      const std::string& what);

class Ledger {
 public:
  // `store` must outlive this object.
  explicit Ledger(KeyValueStore& store) : store_(store) {}

  // Adds a line; an equal line that is there already is no error.
  // Error (failure): a line of that version is there and differs; the message names the job, the
  // step and the first rank, or the digests. The old line stays.
  Status append(const JobId& job, const LedgerLine& line);
  // The lines with versions in [begin, end), ascending, the first `most` of them; versions without
  // a line are left out. REQUIRES: most > 0.
  Result<std::vector<LedgerLine>> read(const JobId& job, Version begin, Version end,
                                       std::size_t most = SIZE_MAX) const;
  // The line of the highest version; none when the ledger is empty.
  Result<std::optional<LedgerLine>> last(const JobId& job) const;
  // Forgets the lines after this version, durably: an audit has found that they may be spoiled.
  Status rewind(const JobId& job, Version through);
  // Forgets the job.
  Status remove(const JobId& job);

 private:
  Status erase(const std::string& begin, const std::string& end);

  KeyValueStore& store_;
};

}  // namespace es::store
