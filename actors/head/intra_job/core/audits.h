#pragma once
// Audits compares local steps that two members have computed (protocol/core/audit.h) and says which
// devices compute wrongly, and since when.
#include <map>
#include <optional>

#include "actors/head/intra_job/core/audit_book.h"
#include "actors/head/intra_job/core/job_context.h"

namespace es::actors::intra_job {

class Audits {
 public:
  // Passed audits are not journaled, so the members of an earlier head are trusted up to the start
  // of the job only.
  explicit Audits(JobContext& context);

  // A placement begins at version `target`. The devices of the members contribute from here on;
  // their later results are not verified yet.
  void begin(Version target);
  // Takes a result. Returns the verdict when the members disagree and all of them have answered.
  // REQUIRES: the worker is a member, and members run steps.
  std::optional<Verdict> take(const Worker& worker, const protocol::Audited& message);
  // Gives up the devices of a verdict and reports them. Returns the newest version that none of
  // them can have spoiled, at most `step`. No member has committed the audited step, so `step` is
  // the newest version.
  Version condemn(const Verdict& verdict, Version step);

 private:
  void pass(const protocol::Audited& message);

  JobContext& context_;
  AuditBook book_;
  // For each device of a member, the newest version that the device cannot have spoiled: the
  // version at which it joined, or the one after the last audited step that it passed.
  std::map<DeviceId, Version> trusted_through_;
};

}  // namespace es::actors::intra_job
