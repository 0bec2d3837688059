#pragma once
// The head's side of the run ledger: takes what workers say about versions, lets each version
// through once and in order, and compares every repetition with the first, bit by bit.
//
// Memory: 40 bytes per version of the run.
#include <optional>
#include <vector>

#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

class LedgerBook {
 public:
  explicit LedgerBook(Version start) : start_(start) {}

  enum class Answer {
    kAdded,
    kRepeated,
    kGap,       // not the next version: a correct worker tells all of its lines in order
    kConflict,  // another value than before: conflict() says which
  };
  Answer add(const protocol::LedgerLine& line, Incarnation from);
  // Lines up to this version are taken as known without having been told, if any is missing; what
  // was told before is forgotten, so that a repetition of it is a gap.
  void skip_to(Version version);
  // Forgets all lines after this version. REQUIRES: start <= version <= through().
  void rewind(Version version);
  // After kConflict: one line for a person.
  const std::string& conflict() const { return conflict_; }

  // All lines up to here are known; `start` when there are none.
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
