#pragma once
// Checks that how a program runs never changes a bit of its results, for lists of small models.
// Both checks compare a step (all gradients and statistics) and an evaluation, and fail the doctest
// case that calls them.
#include <cstdint>
#include <vector>

#include "gpu/graph/differentiate.h"
#include "gpu/graph/graph.h"
#include "tests/gpu/graph/operator_cases.h"

namespace es::test {

// operator_cases() and network_cases().
std::vector<OperatorCase> all_cases();

// For every supported kernel class: compile() and `unfused` give the same bits.
void check_fusion_keeps_bits(const std::vector<OperatorCase>& cases, std::uint64_t seed,
                             gpu::Program (*unfused)(gpu::Graph));

// All supported kernel classes, with one and with three threads, give the same bits.
void check_classes_and_threads_keep_bits(const std::vector<OperatorCase>& cases,
                                         std::uint64_t seed);

}  // namespace es::test
