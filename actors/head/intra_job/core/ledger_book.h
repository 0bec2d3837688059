#pragma once
// LedgerBook is the head's side of the run ledger. It takes the ledger lines that workers report,
// passes each version on once and in order, and compares every repetition with the first one, bit
// by bit.
//
// Memory: 40 bytes for each version of the run.
#include <optional>
#include <vector>

#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

class LedgerBook {
 public:
  explicit LedgerBook(Version start) : start_(start) {}

  enum class Answer {
    kAdded,
    kRepeated,
    kGap,       // not the next version; a correct worker reports all its lines in order
    kConflict,  // differs from the line before; conflict() describes it
  };
  Answer add(const protocol::LedgerLine& line, Incarnation from);
  // Treats lines up to this version as known although they were not reported, if any is missing.
  // Lines that were reported before are forgotten, so that a repetition of them is a gap.
  void skip_to(Version version);
  // Forgets all lines after this version. REQUIRES: start <= version <= through().
  void rewind(Version version);
  // After kConflict: one line for a user.
  const std::string& conflict() const { return conflict_; }

  // All lines up to this version are known; `start` if there are none.
  Version through() const { return start_ + entries_.size(); }
  const std::optional<protocol::LedgerLine>& first() const { return first_; }
  const std::optional<protocol::LedgerLine>& last() const { return last_; }

 private:
  struct Entry {
    Digest params;
    Digest losses;
    Incarnation from;
  };
  Version start_;
  std::vector<Entry> entries_;  // entry i is version start_ + 1 + i
  std::optional<protocol::LedgerLine> first_;
  std::optional<protocol::LedgerLine> last_;
  std::string conflict_;
};

// Mean loss over the ESTs of a line, in fp64, ascending by rank.
double mean_loss(const protocol::LedgerLine& line);

}  // namespace es::actors::intra_job
