#pragma once
// HeadLink: what the controller asks of the head of its cluster. The program that runs the
// controller implements it with its client.
#include <functional>
#include <memory>
#include <string>

#include "actors/base/gateway/shell/keys.h"
#include "actors/kubernetes/core/head_facts.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

// Not thread-safe. Errors of all: refused, usage, not found: the answer of the head; failure: it
// does not answer, and a new link is needed.
class HeadLink {
 public:
  virtual ~HeadLink() = default;
  virtual Result<HeadFacts> look() = 0;
  // `request_id`: a second call with it returns the job of the first one.
  virtual Result<std::string> submit(const JobSpec& spec, const std::string& request_id) = 0;
  // The job that was made for this id; empty: none.
  virtual Result<std::string> made_by(const std::string& request_id) = 0;
  virtual Status resume(const std::string& job) = 0;
  // These ask for it. The job is scaled when it has the devices, and stops after minutes at worst.
  // `demand`: TYPE:COUNT, or auto.
  virtual Status scale(const std::string& job, const std::string& demand) = 0;
  virtual Status pause(const std::string& job) = 0;
  virtual Status cancel(const std::string& job) = 0;
  // Why the job waits, in sentences.
  virtual Result<std::string> why_waits(const std::string& job) = 0;
};

using ConnectHead = std::function<Result<std::unique_ptr<HeadLink>>(const std::string& endpoint,
                                                                    const ClusterKeys& keys)>;

}  // namespace es::actors::kubernetes
