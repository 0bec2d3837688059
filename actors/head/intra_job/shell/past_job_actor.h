#pragma once
// PastJob shows a job to clients that was over before the head was restarted. There is one PastJob
// for each such job.
//
// Accepts   Inbound requests of clients about this job: DescribeJob and FollowJob are answered as
//           at the end of the job, all others are refused. DescribeJob of the cluster scheduler is
//           answered with JobDetails.
// Sends     Answers, through the gateway.
// State     What the store has about the end of the job. The actor changes nothing.
// Fails     If the end of the job was not stored, the actor shows what the journal's record
//           contains.
// Order     No order is assumed.
// Limits    None of its own.
// Threads   Cooperative. Reads the log file while it answers.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include <filesystem>
#include <memory>

#include "actors/head/head_store.h"
#include "proto/messages.h"

namespace es::actors {

// What is shown of a job of which nothing but its record is known. `ended_unix_ms`: when it was
// over; 0: not known.
Msg<wire::JobDetails> details_of(const JobRecord& record, std::uint64_t ended_unix_ms);

caf::behavior past_job_actor(caf::event_based_actor* self, const JobRecord& record,
                             const std::filesystem::path& log_file, caf::actor gateway,
                             const std::shared_ptr<HeadStore>& store);

}  // namespace es::actors
