#pragma once
// Formulas of batch norm and layer norm for one element or one column. The namespace is unnamed for
// the reason given in scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Returns `value` after it has passed, forward or backward, an activation whose input was `test`.
ES_HD inline float activate(Activation act, float value, float test) {
  if (act == Activation::kNone) return value;
  return act == Activation::kRelu ? keep_positive(value, test) : leaky(value, test, kLeakySlope);
}

ES_HD inline float inverse_deviation(float variance, float eps) {
  return 1.0f / sqrt(variance + eps);
}

// Returns the squared deviations of a run from the mean of all rows. `squares` are its squared
// deviations from its own mean `run_mean`; the difference of the two means contributes count * e^2.
ES_HD inline float bn_moved_squares(float squares, float count, float run_mean, float mean) {
  const float e = run_mean - mean;
  return fma(count * e, e, squares);
}

// Computes all results of column j that follow from its mean, which is in bn.mean[j], and from the
// sum of squared deviations from it. Returns gamma * istd.
ES_HD inline float bn_finish_column(const BnForward& bn, std::int64_t j, float squares) {
  const float unbiased = bn.rows == 1 ? 1.0f : static_cast<float>(bn.rows) * recip(bn.rows - 1);
  const float keep = 1.0f - bn.momentum, variance = squares * recip(bn.rows);
  bn.istd[j] = inverse_deviation(variance, bn.eps);
  bn.next_mean[j] = fma(bn.momentum, bn.mean[j], keep * bn.running_mean[j]);
  bn.next_var[j] = fma(bn.momentum, variance * unbiased, keep * bn.running_var[j]);
  return bn.gamma[j] * bn.istd[j];
}

ES_HD inline float bn_output(float x, float mean, float a, float beta, Activation act) {
  const float value = fma(x - mean, a, beta);
  return activate(act, value, value);
}

// For one element: d = x - mean, and the gradient g with respect to the input of the activation.
struct BnBackwardElement {
  float d, g;
};
ES_HD inline BnBackwardElement bn_backward_element(float x, float dy, float mean, float a,
                                                   float beta, Activation act) {
  const float d = x - mean;
  return {d, activate(act, dy, fma(d, a, beta))};
}

// The values that all gradients of a column's input use: db / R and dg * istd / R.
struct BnBackwardColumn {
  float gradient, product;
};
// Writes dgamma[j] and dbeta[j] from the sums of g and of g * d.
ES_HD inline BnBackwardColumn bn_finish_backward(const BnBackward& bn, std::int64_t j,
                                                 float gradient, float product) {
  const float dg = product * bn.istd[j];
  bn.dbeta[j] = gradient;
  bn.dgamma[j] = dg;
  return {gradient * recip(bn.rows), (dg * bn.istd[j]) * recip(bn.rows)};
}

ES_HD inline float bn_input_gradient(const BnBackwardElement& e, float a,
                                     const BnBackwardColumn& column) {
  return a * fma(-e.d, column.product, e.g - column.gradient);
}

// t = dy * gamma of the backward pass of layer norm, h is the normalised input, c1 and c2 are the
// means of t and of t * h.
ES_HD inline float layer_norm_input_gradient(float t, float h, float istd, float c1, float c2) {
  return istd * fma(h, -c2, t - c1);
}

}  // namespace
}  // namespace es::gpu
