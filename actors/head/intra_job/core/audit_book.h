#pragma once
// AuditBook is the head's side of audits (protocol/audit.h). It collects the results of a local
// step that members report and, if they differ, finds the device that computes wrongly.
//
// If the results differ, all members are asked to compute the same local step once more. This finds
// a device that contradicts itself (a transient error). With three devices or more it also finds a
// device whose result no other device has (a permanent error).
//
// Pure. One audit runs at a time: no member commits an audited step before the audit has passed.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/base/protocol/core/audit.h"

namespace es::actors::intra_job {

// All results of each member for one local step, in the order in which they came.
using Opinions = std::map<Incarnation, std::vector<Digest>>;

struct Verdict {
  std::set<Incarnation> guilty;  // empty: all agree
  // true: the members that are not guilty have the right result. false: it cannot be decided which
  // device is right (two devices that each repeat their result), and all members that answered are
  // guilty.
  bool decided = true;
};

// A device that reported two different results is wrong. Among the other devices a result is right
// if more than half of them report it. A device that was not asked does not count.
Verdict judge(const Opinions& opinions);

class AuditBook {
 public:
  explicit AuditBook(std::uint64_t every_steps) : every_steps_(every_steps) {}

  // Begins a new placement, or none. Earlier results are dropped.
  void place(std::vector<protocol::Member> members);

  enum class Next {
    kWait,    // wait for more results
    kPassed,  // the step may be committed
    kAsk,     // results differ: ask all members for one more
    kJudged,  // all members have answered: call verdict()
  };
  // REQUIRES: `from` is a member. A result that does not belong to the running audit is ignored
  // (kWait).
  Next add(const protocol::Audited& message, Incarnation from);
  Verdict verdict() const { return judge(opinions_); }
  // The step of the last result that counted.
  Version step() const { return step_; }

 private:
  std::size_t expected() const;

  std::uint64_t every_steps_;
  std::vector<protocol::Member> members_;
  Version step_ = 0;
  bool over_ = false;   // the audit of step_ has passed, or was judged
  bool asked_ = false;  // all members were asked
  std::size_t count_ = 0;
  Opinions opinions_;
};

}  // namespace es::actors::intra_job
