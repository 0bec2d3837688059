#pragma once
// Between what the head core wants to survive (intra_job::JobRecord) and what the journal stores.
#include "actors/intra_job/intra_job_events.h"
#include "scheduler/refusal.h"
#include "store/journal/job_journal.h"

namespace es::actors {

// Overwrites what the core decides; what was fixed at admission (spec, sequence, ...) stays.
void update(store::JobRecord& stored, const intra_job::JobRecord& record);

// What the job refuses is the shell's: it survives beside what the core decides.
void update(store::JobRecord& stored, const std::vector<scheduler::Refusal>& refusals);
std::vector<scheduler::Refusal> refusals_of(const store::JobRecord& stored);

// What a restarted head hands to the core.
intra_job::JobRecord core_record(const store::JobRecord& stored);

}  // namespace es::actors
