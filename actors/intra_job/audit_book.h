#pragma once
// The head's side of audits (protocol/audit.h): collects what members say that a local step gave,
// and when they differ finds out whose device computes wrongly.
//
// While opinions differ all members are asked to compute the same local step once more. That finds
// a device that disagrees with itself (a transient error), and with three devices or more one that
// is alone with its opinion (a permanent one).
//
// Pure. One audit at a time: no member commits an audited step before it has passed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/audit.h"

namespace es::actors::intra_job {

// All opinions of each member about one local step, in the order in which they came.
using Opinions = std::map<Incarnation, std::vector<Digest>>;

struct Verdict {
  std::set<Incarnation> guilty;  // empty: all agree
  // The others have the right result. False: nobody can say who is right (two devices that each
  // repeat what they said), and all who spoke are in `guilty`.
  bool decided = true;
};

// A device that gave two results is wrong. Of those that gave one, what most of them say is right,
// when these are more than half; a device that was not asked counts for nothing.
Verdict judge(const Opinions& opinions);

class AuditBook {
 public:
  explicit AuditBook(std::uint64_t every_steps) : every_steps_(every_steps) {}

  // A new placement is about to run, or none: what was said before is void.
  void place(std::vector<protocol::Member> members);

  enum class Next {
    kWait,    // for more opinions
    kPassed,  // the step may be committed
    kAsk,     // opinions differ: ask all members for one more
    kJudged,  // all have answered: verdict()
  };
  // REQUIRES: `from` is a member. An opinion about anything but the audit that runs is void
  // (kWait).
  Next add(const protocol::Audited& message, Incarnation from);
  Verdict verdict() const { return judge(opinions_); }
  // The step of the last opinion that counted.
  Version step() const { return step_; }

 private:
  std::size_t expected() const;

  std::uint64_t every_steps_;
  std::vector<protocol::Member> members_;
  Version step_ = 0;
  bool over_ = false;   // of step_: it has passed, or was judged
  bool asked_ = false;  // all members
  std::size_t count_ = 0;
  Opinions opinions_;
};

}  // namespace es::actors::intra_job
