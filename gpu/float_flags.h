#pragma once
// The processor's sticky floating-point flags, of the calling thread.
//
// An operation on finite numbers whose result is infinite or NaN raises one of the flags overflow,
// invalid and division by zero, in every vector width. So an operator with finite inputs that
// raised none of them has finite outputs, which saves reading them again. A raised flag proves
// nothing: an intermediate value may have been infinite on purpose, as in EXP of a masked score.
#include <xmmintrin.h>

namespace es::gpu {

// A set of flags; 0 = none.
using FloatFlags = unsigned;
constexpr FloatFlags kNonFiniteFlags =
    _MM_EXCEPT_INVALID | _MM_EXCEPT_DIV_ZERO | _MM_EXCEPT_OVERFLOW;

inline FloatFlags non_finite_flags() {
  return _mm_getcsr() & kNonFiniteFlags;
}
inline void clear_non_finite_flags() {
  _mm_setcsr(_mm_getcsr() & ~kNonFiniteFlags);
}
inline void raise_flags(FloatFlags flags) {
  _mm_setcsr(_mm_getcsr() | flags);
}

}  // namespace es::gpu
