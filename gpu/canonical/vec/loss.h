#pragma once
// Losses. The vectors of a row compute its exponentials and gradients; the sums are SUM64, as in
// the scalar class.
#include "gpu/canonical/loss_math.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/math.h"
#include "gpu/canonical/vec/reduce.h"

namespace es::gpu {
namespace {

inline void softmax_xent_fwd(std::int64_t rows, std::int64_t classes, const float* logits,
                             const std::int32_t* labels, const LossTerms& terms, float* probs,
                             float* row_loss) {
  for (std::int64_t r = 0; r < rows; ++r, logits += classes, probs += classes) {
    const float max = row_max(classes, logits);
    // Read before the probabilities may take its place.
    LossRow row{.logit = labels[r] < 0 ? 0.0f : logits[labels[r]], .sum = 0.0f, .max = max};
    if (terms.smoothing != 0.0f) row.sum = sum64(classes, logits);
    for_vectors(classes, [&](std::int64_t i, auto at) {
      at.store(probs + i, canonical_exp(sub(at.load(logits + i), set(max))));
    });
    const float sum = sum64(classes, probs);
    row.log = canonical_log(sum);
    scale(classes, probs, 1.0f / sum * probability_factor(terms, row), probs);
    row_loss[r] = labels[r] < 0 ? 0.0f : row_loss_of(terms, row, classes);
  }
}

inline void softmax_xent_mean(std::int64_t rows, const std::int32_t* labels, const float* row_loss,
                              float* mean_loss) {
  *mean_loss = sum64(rows, row_loss) * recip(labelled_rows(rows, labels));
}

inline void softmax_xent_bwd(std::int64_t rows, std::int64_t classes, const float* probs,
                             const std::int32_t* labels, const LabelledRows& counted,
                             const LossTerms& terms, float* dlogits) {
  const float mean_scale = recip(labelled_rows(counted.rows, counted.labels));
  const float share = share_of_class(terms, classes), hot = share_of_label(terms);
  for (std::int64_t r = 0; r < rows; ++r, probs += classes, dlogits += classes) {
    if (labels[r] < 0) {
      zero_floats(dlogits, classes);
    } else {
      const float label = probs[labels[r]];
      for_vectors(classes, [&](std::int64_t i, auto at) {
        // Behind the share nothing is subtracted: p - 0 has the bits of p.
        at.store(dlogits + i, mul(sub(at.load(probs + i), set(share)), set(mean_scale)));
      });
      dlogits[labels[r]] = ((label - share) - hot) * mean_scale;
    }
  }
}

inline void bce_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
                    float* mean_loss) {
  for_vectors(n, [=](std::int64_t i, auto at) {
    at.store(element_loss + i, canonical_bce(at.load(x + i), at.load(target + i)));
  });
  *mean_loss = sum64(n, element_loss) * recip(n);
}

inline void bce_bwd(std::int64_t n, const float* x, const float* target, float* dx) {
  const Vec mean_scale = set(recip(n));
  for_vectors(n, [=](std::int64_t i, auto at) {
    const Vec d = sub(canonical_sigmoid(at.load(x + i)), at.load(target + i));
    at.store(dx + i, mul(d, mean_scale));
  });
}

inline void mse_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
                    float* mean_loss) {
  for_vectors(n, [=](std::int64_t i, auto at) {
    const Vec d = sub(at.load(x + i), at.load(target + i));
    at.store(element_loss + i, mul(d, d));
  });
  *mean_loss = sum64(n, element_loss) * recip(n);
}

inline void mse_bwd(std::int64_t n, const float* x, const float* target, float* dx) {
  const Vec factor = set(2.0f * recip(n));
  for_vectors(n, [=](std::int64_t i, auto at) {
    at.store(dx + i, mul(sub(at.load(x + i), at.load(target + i)), factor));
  });
}

}  // namespace
}  // namespace es::gpu
