// The time steps of recurrent layers.
#include "tests/gpu/canonical/recurrent_steps.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

TEST_SUITE("gpu/cuda/recurrent") {
  TEST_CASE("the steps of recurrent layers have the bits of the scalar class") {
    Random random(test::seed("device recurrent"));
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru})
      for (int i = 0; i < 20; ++i) {
        const RecurrentStep step(random, cell, random.integer(1, 9), random.integer(1, 200));
        auto out = step.forward_outputs(), on_device = step.forward_outputs();
        reference().recurrent_fwd(step.forward(out));
        device().recurrent_fwd(kStream, step.forward(on_device));
        check_same(step.what, out, on_device);
        auto gradients = step.backward_outputs(), of_device = step.backward_outputs();
        reference().recurrent_bwd(step.backward(out, gradients));
        device().recurrent_bwd(kStream, step.backward(out, of_device));
        check_same(step.what + " backward", gradients, of_device);
      }
  }
}

}  // namespace
}  // namespace es::gpu::testing
