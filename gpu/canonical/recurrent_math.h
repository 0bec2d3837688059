#pragma once
// One time step of a recurrent layer (RecurrentForward, RecurrentBackward), written once for one
// element and for vectors. What functions_math.h says about V holds here for the type that
// `at.load` returns. An access `at` reads and writes one float, or a vector of neighbouring ones.
// Every input of an element is read before an output that may alias it is written.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/one_lane.h"

namespace es::gpu {
namespace {

// One float as an access.
struct OneFloat {
  ES_HD float load(const float* p) const { return *p; }
  ES_HD void store(float* p, float v) const { *p = v; }
};

// The gradient of SIGMOID or TANH, whose result is y.
template <class V>
ES_HD inline V sigmoid_gradient(V dy, V y) {
  return mul(dy, mul(y, sub(like(y, 1.0f), y)));
}
template <class V>
ES_HD inline V tanh_gradient(V dy, V y) {
  return mul(dy, fma(negate(y), y, like(y, 1.0f)));
}

// The functions below compute the units from `unit` on of one row.

template <class At>
ES_HD inline void lstm_forward(const RecurrentForward& s, std::int64_t row, std::int64_t unit,
                               const At& at) {
  const std::int64_t one = row * s.units + unit, all = 4 * row * s.units + unit;
  const auto gate = [&](int k) {
    const std::int64_t i = all + k * s.units;
    return add(at.load(s.x + i), at.load(s.product + i));
  };
  const auto i = canonical_sigmoid(gate(0)), f = canonical_sigmoid(gate(1));
  const auto g = canonical_tanh(gate(2)), o = canonical_sigmoid(gate(3));
  const auto c = add(mul(f, at.load(s.before + one)), mul(i, g));
  at.store(s.gates + all, i);
  at.store(s.gates + all + s.units, f);
  at.store(s.gates + all + 2 * s.units, g);
  at.store(s.gates + all + 3 * s.units, o);
  at.store(s.kept + one, c);
  at.store(s.y + one, mul(o, canonical_tanh(c)));
  if (s.last != nullptr) at.store(s.last + one, c);
}

template <class At>
ES_HD inline void gru_forward(const RecurrentForward& s, std::int64_t row, std::int64_t unit,
                              const At& at) {
  const std::int64_t one = row * s.units + unit, all = 3 * row * s.units + unit;
  const auto x = [&](int k) { return at.load(s.x + all + k * s.units); };
  const auto product = [&](int k) { return at.load(s.product + all + k * s.units); };
  const auto r = canonical_sigmoid(add(x(0), product(0)));
  const auto z = canonical_sigmoid(add(x(1), product(1)));
  const auto kept = product(2);
  const auto n = canonical_tanh(add(x(2), mul(r, kept)));
  at.store(s.gates + all, r);
  at.store(s.gates + all + s.units, z);
  at.store(s.gates + all + 2 * s.units, n);
  at.store(s.kept + one, kept);
  at.store(s.y + one, add(n, mul(z, sub(at.load(s.before + one), n))));
}

template <class At>
ES_HD inline void lstm_backward(const RecurrentBackward& s, std::int64_t row, std::int64_t unit,
                                const At& at) {
  const std::int64_t one = row * s.units + unit, all = 4 * row * s.units + unit;
  const auto gate = [&](int k) { return at.load(s.gates + all + k * s.units); };
  const auto i = gate(0), f = gate(1), g = gate(2), o = gate(3);
  const auto c_before = at.load(s.before + one), tanh_c = canonical_tanh(at.load(s.kept + one));
  const auto dh = add(at.load(s.dy + one), at.load(s.product + one));
  const auto dc = add(at.load(s.carry + one), tanh_gradient(mul(dh, o), tanh_c));
  at.store(s.dx + all, sigmoid_gradient(mul(dc, g), i));
  at.store(s.dx + all + s.units, sigmoid_gradient(mul(dc, c_before), f));
  at.store(s.dx + all + 2 * s.units, tanh_gradient(mul(dc, i), g));
  at.store(s.dx + all + 3 * s.units, sigmoid_gradient(mul(dh, tanh_c), o));
  at.store(s.carry + one, mul(dc, f));
}

template <class At>
ES_HD inline void gru_backward(const RecurrentBackward& s, std::int64_t row, std::int64_t unit,
                               const At& at) {
  const std::int64_t one = row * s.units + unit, all = 3 * row * s.units + unit;
  const auto gate = [&](int k) { return at.load(s.gates + all + k * s.units); };
  const auto r = gate(0), z = gate(1), n = gate(2);
  const auto h = at.load(s.before + one), kept = at.load(s.kept + one);
  const auto dh = add(at.load(s.dy + one), add(at.load(s.carry + one), at.load(s.product + one)));
  const auto carry = mul(dh, z);
  const auto dn = tanh_gradient(sub(dh, carry), n);
  const auto dz = sigmoid_gradient(mul(dh, sub(h, n)), z);
  const auto dr = sigmoid_gradient(mul(dn, kept), r);
  const auto store = [&](float* to, auto third) {
    at.store(to + all, dr);
    at.store(to + all + s.units, dz);
    at.store(to + all + 2 * s.units, third);
  };
  store(s.dx, dn);
  store(s.dproduct, mul(dn, r));
  at.store(s.carry + one, carry);
}

template <class At>
ES_HD inline void recurrent_forward(const RecurrentForward& s, std::int64_t row, std::int64_t unit,
                                    const At& at) {
  if (s.cell == RecurrentCell::kLstm) {
    lstm_forward(s, row, unit, at);
  } else {
    gru_forward(s, row, unit, at);
  }
}
template <class At>
ES_HD inline void recurrent_backward(const RecurrentBackward& s, std::int64_t row,
                                     std::int64_t unit, const At& at) {
  if (s.cell == RecurrentCell::kLstm) {
    lstm_backward(s, row, unit, at);
  } else {
    gru_backward(s, row, unit, at);
  }
}

}  // namespace
}  // namespace es::gpu
