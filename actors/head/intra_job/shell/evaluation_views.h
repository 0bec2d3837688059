#pragma once
// EvaluationViews are the evaluations of one job as its users see them. One owner.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/base/protocol/wire/job_view.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::actors {

class EvaluationViews {
 public:
  // `spec` outlives this object.
  explicit EvaluationViews(const JobSpec& spec) : spec_(spec) {}

  // Keeps the evaluation and returns a line for the log; `totals` are those of protocol::Evaluated.
  // Data without evaluation samples have no metrics: nothing is kept, and the line is empty.
  std::string add(Version version, std::span<const std::byte> totals);
  // Forgets the evaluations after this version.
  void rewind(Version through) { views_.erase(views_.upper_bound(through), views_.end()); }
  // Ascending by version.
  std::vector<EvaluationView> all() const;

 private:
  const JobSpec& spec_;
  std::map<Version, EvaluationView> views_;
};

}  // namespace es::actors
