#include "gpu/canonical/recurrent_math.h"

#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {

void recurrent_fwd(const RecurrentForward& s) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t unit = 0; unit < s.units; ++unit) recurrent_forward(s, row, unit, OneFloat());
}

void recurrent_bwd(const RecurrentBackward& s) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t unit = 0; unit < s.units; ++unit)
      recurrent_backward(s, row, unit, OneFloat());
}

}  // namespace es::gpu::scalar
