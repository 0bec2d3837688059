#include "gpu/canonical/loss_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {

void softmax_xent_fwd(std::int64_t rows, std::int64_t classes, const float* logits,
                      const std::int32_t* labels, const LossTerms& terms, float* probs,
                      float* row_loss) {
  for (std::int64_t r = 0; r < rows; ++r, logits += classes, probs += classes) {
    // Subtracting the largest logit keeps every EXP at most 1. A comparison with NaN is false, so a
    // NaN never becomes the maximum, but it reaches the sum through EXP.
    float max = -kInfinity;
    for (std::int64_t i = 0; i < classes; ++i) max = max < logits[i] ? logits[i] : max;
    // Read before the probabilities may take its place.
    LossRow row{.logit = labels[r] < 0 ? 0.0f : logits[labels[r]], .sum = 0.0f, .max = max};
    if (terms.smoothing != 0.0f) row.sum = sum64(classes, logits);
    for (std::int64_t i = 0; i < classes; ++i) probs[i] = canonical_exp(logits[i] - max);
    const float sum = sum64(classes, probs);
    row.log = canonical_log(sum);
    const float scale = 1.0f / sum * probability_factor(terms, row);
    for (std::int64_t i = 0; i < classes; ++i) probs[i] = probs[i] * scale;
    // A row without a label has the loss +0 and does not count in the mean.
    row_loss[r] = labels[r] < 0 ? 0.0f : row_loss_of(terms, row, classes);
  }
}

void softmax_xent_mean(std::int64_t rows, const std::int32_t* labels, const float* row_loss,
                       float* mean_loss) {
  *mean_loss = sum64(rows, row_loss) * recip(labelled_rows(rows, labels));
}

void softmax_xent_bwd(std::int64_t rows, std::int64_t classes, const float* probs,
                      const std::int32_t* labels, const LabelledRows& counted,
                      const LossTerms& terms, float* dlogits) {
  const float scale = recip(labelled_rows(counted.rows, counted.labels));
  const float share = share_of_class(terms, classes), hot = share_of_label(terms);
  for (std::int64_t r = 0; r < rows; ++r, probs += classes, dlogits += classes) {
    for (std::int64_t i = 0; i < classes; ++i) {
      const float onehot = i == labels[r] ? hot : 0.0f;
      dlogits[i] = labels[r] < 0 ? 0.0f : ((probs[i] - share) - onehot) * scale;
    }
  }
}

void bce_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
             float* mean_loss) {
  for (std::int64_t i = 0; i < n; ++i) element_loss[i] = canonical_bce(x[i], target[i]);
  *mean_loss = sum64(n, element_loss) * recip(n);
}

void bce_bwd(std::int64_t n, const float* x, const float* target, float* dx) {
  for (std::int64_t i = 0; i < n; ++i) dx[i] = (canonical_sigmoid(x[i]) - target[i]) * recip(n);
}

void mse_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
             float* mean_loss) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = x[i] - target[i];
    element_loss[i] = d * d;
  }
  *mean_loss = sum64(n, element_loss) * recip(n);
}

void mse_bwd(std::int64_t n, const float* x, const float* target, float* dx) {
  for (std::int64_t i = 0; i < n; ++i) dx[i] = (x[i] - target[i]) * (2.0f * recip(n));
}

}  // namespace es::gpu::scalar
