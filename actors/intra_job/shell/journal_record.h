#pragma once
// Conversion between the part of the core's state that survives the head (intra_job::JobRecord) and
// the record in the journal.
#include "actors/intra_job/core/intra_job_events.h"
#include "scheduler/grants/refusal.h"
#include "store/journal/job_journal.h"

namespace es::actors {

// Overwrites the fields that the core decides. The fields fixed at admission (spec, sequence, ...)
// stay.
void update(store::JobRecord& stored, const intra_job::JobRecord& record);

// The shell owns the list of refused devices. It is stored beside the fields that the core decides.
void update(store::JobRecord& stored, const std::vector<scheduler::Refusal>& refusals);
std::vector<scheduler::Refusal> refusals_of(const store::JobRecord& stored);

// Returns the record that a restarted head gives to the core.
intra_job::JobRecord core_record(const store::JobRecord& stored);

}  // namespace es::actors
