#pragma once
// The points of a job's curves, as trackers get them. Pure functions.
#include <string>
#include <vector>

#include "actors/views/trackers/tracker.h"
#include "actors/views/views.h"
#include "store/ledger/ledger_file.h"

namespace es::actors {

inline constexpr const char* kTrainLoss = "train/loss";

// The mean over the ESTs of the losses of a step. REQUIRES: the line has losses.
double mean_loss(const store::LedgerLine& line);

// The points that come after `last`: "train/loss" for each line with losses, and "eval/NAME" for
// each metric of an evaluation, both by step.
std::vector<store::Scalar> points_after(const LastSteps& last,
                                        const std::vector<store::LedgerLine>& lines,
                                        const std::vector<EvaluationView>& evaluations);

}  // namespace es::actors
