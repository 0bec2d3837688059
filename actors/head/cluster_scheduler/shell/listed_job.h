#pragma once
// ListedJob: what a list of jobs shows of one job. A value; shared once it is made.
#include <cstdint>
#include <memory>
#include <string>

#include "proto/messages.h"

namespace es::actors {

struct ListedJob {
  std::string id, name, state, tenant;
  bool over = false;
  std::uint64_t ended_unix_ms = 0;
  bool may_change = false;        // it is not over, or its end is not written yet
  Msg<wire::JobDetails> details;  // with its last evaluation only, and without its spec
};

// Never null. REQUIRES: the message comes from an actor of this process.
std::shared_ptr<const ListedJob> listed(const Msg<wire::JobDetails>& details);

}  // namespace es::actors
