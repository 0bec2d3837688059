#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"
#include "gpu/canonical/yolo_math.h"

namespace es::gpu::scalar {
namespace {

struct Steps {
  static void background(const YoloShape& s, std::int64_t scale, const float* output,
                         const YoloCorners* corners, std::int64_t boxes, float mean_scale,
                         float* loss, float* gradient) {
    const std::int64_t channels = yolo_channels(s);
    for (std::int64_t i = 0; i < yolo_positions(s, scale); ++i) {
      const YoloCorners mine = yolo_prediction(s, scale, i, output);
      bool ignored = false;
      for (std::int64_t m = 0; m < boxes; ++m) ignored = ignored || yolo_overlaps(mine, corners[m]);
      // The other channels get their gradients later, from the boxes that learn at this position.
      for (std::int64_t j = 0; j < channels; ++j) gradient[j] = 0.0f;
      const float logit = output[kYoloObjectness];
      const float counted = yolo_counted(mine, ignored);
      loss[i] = keep_positive(canonical_bce(logit, 0.0f), counted);
      gradient[kYoloObjectness] = keep_positive(canonical_sigmoid(logit) * mean_scale, counted);
      output += channels;
      gradient += channels;
    }
  }

  static void classes(std::int64_t classes, std::int32_t label, const float* logits,
                      float mean_scale, float* loss, float* gradient) {
    for (std::int64_t k = 0; k < classes; ++k) {
      const float target = k == label ? 1.0f : 0.0f;
      loss[k] = canonical_bce(logits[k], target);
      gradient[k] = (canonical_sigmoid(logits[k]) - target) * mean_scale;
    }
  }

  static float sum(std::int64_t n, const float* x) { return sum64(n, x); }
};

}  // namespace

std::size_t yolo_loss_workspace_floats(const YoloShape& s) {
  return es::gpu::yolo_loss_workspace_floats(s);
}

void yolo_loss(const YoloShape& s, const float* const outputs[3], const float* boxes,
               float* const gradients[3], float* image_loss, float* mean_loss, float* ws) {
  yolo_loss_by<Steps>(s, outputs, boxes, gradients, image_loss, mean_loss, ws);
}

}  // namespace es::gpu::scalar
