#pragma once
// PastJob: one for each job that was over before the head was restarted. Shows it to clients.
//
// Accepts   Inbound: requests of clients about this job: DescribeJob and FollowJob are answered as
//           at its end, all others refused. DescribeJob of the cluster scheduler -> JobDetails.
// Sends     Answers through the gateway.
// State     what the store has of the job's end. Changes nothing.
// Fails     A job whose end was not kept is shown by its journal's record alone.
// Order, limits  None assumed, none of its own.
// Threads   Cooperative; reads the log file while it answers.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include <filesystem>
#include <memory>

#include "actors/head/head_store.h"

namespace es::actors {

caf::behavior past_job_actor(caf::event_based_actor* self, const store::JobRecord& record,
                             const std::filesystem::path& log_file, caf::actor gateway,
                             const std::shared_ptr<HeadStore>& store);

}  // namespace es::actors
