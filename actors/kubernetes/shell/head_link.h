#pragma once
// HeadLink: what the controller asks of the head of its cluster. The program that runs the
// controller implements it with its client.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/base/gateway/shell/keys.h"
#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/job_steps.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

// Not thread-safe. Errors of all: refused, usage, not found: the answer of the head; failure: it
// does not answer, and a new link is needed.
class HeadLink {
 public:
  virtual ~HeadLink() = default;
  // The facts have no number.
  virtual Result<HeadFacts> look() = 0;
  // `request_id`: a second call with it returns the job of the first one.
  virtual Result<std::string> submit(const JobSpec& spec, const std::string& request_id) = 0;
  // The job that was made for this id; empty: none.
  virtual Result<std::string> made_by(const std::string& request_id) = 0;
  // Asks for kPause, kResume, kCancel or kScale of a job, and does not wait: the head answers when
  // the job has stopped, or has its devices. Returns the number of the request.
  virtual std::uint64_t ask(const std::string& job, const JobOrder& order) = 0;
  // The answer to it, once, if it came before the last look() has returned.
  virtual std::optional<Status> answer_to(std::uint64_t request) = 0;
};

using ConnectHead = std::function<Result<std::unique_ptr<HeadLink>>(const std::string& endpoint,
                                                                    const ClusterKeys& keys)>;

}  // namespace es::actors::kubernetes
