#pragma once
// Access to the sticky floating-point flags of the processor, for the calling thread.
//
// An operation on finite numbers whose result is infinite or NaN raises one of the flags overflow,
// invalid and division by zero, in every vector width. Therefore an operator that has finite inputs
// and raised none of these flags has finite outputs, and they need not be read again. A raised flag
// proves nothing: an intermediate value may have been infinite on purpose, as in EXP of a masked
// score.
#include <xmmintrin.h>

namespace es::gpu {

// A set of flags; 0: none.
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
