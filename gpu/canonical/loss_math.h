#pragma once
// The terms of a cross entropy besides its first one, for one row; every kernel class uses them.
#include <cstdint>

#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// A row of logits: the one of the label, their sum, the largest, and LOG of the sum of EXP.
struct LossRow {
  float logit, sum, max, log;
};

ES_HD inline float log_sum_exp(const LossRow& row) {
  return row.log + row.max;
}

ES_HD inline float row_loss_of(const LossTerms& terms, const LossRow& row, std::int64_t classes) {
  float loss = row.log - (row.logit - row.max);
  if (terms.smoothing != 0.0f) {
    loss = fma(terms.smoothing, row.logit - row.sum * recip(classes), loss);
  }
  if (terms.z != 0.0f) {
    const float lse = log_sum_exp(row);
    loss = fma(terms.z * lse, lse, loss);
  }
  return loss;
}

// The factor of the probabilities: the derivative of lse + z lse^2 by lse.
ES_HD inline float probability_factor(const LossTerms& terms, const LossRow& row) {
  return terms.z == 0.0f ? 1.0f : fma(2.0f * terms.z, log_sum_exp(row), 1.0f);
}

// What every class, and the class of the label besides, subtracts from its probability.
ES_HD inline float share_of_class(const LossTerms& terms, std::int64_t classes) {
  return terms.smoothing * recip(classes);
}
ES_HD inline float share_of_label(const LossTerms& terms) {
  return 1.0f - terms.smoothing;
}

}  // namespace
}  // namespace es::gpu
