// The YOLO loss, for all images of a batch at once: first every position as one without a box, then
// the boxes, then the sums.
#include "gpu/canonical/yolo_math.h"
#include "gpu/cuda/kernels/array_sum.h"
#include "gpu/cuda/kernels/map.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// The data that the kernels share. The workspace has the objectness losses [batch][positions], then
// for each box its loss, its corners and the position that it claims, -1 for no box:
// [batch][boxes].
struct Yolo {
  YoloShape s;
  const float* outputs[kYoloScales];
  float* gradients[kYoloScales];
  const float* boxes;
  float mean_scale;
  float *objectness, *box_loss;
  YoloCorners* corners;
  std::int32_t* claimed;

  ES_HD const float* box(std::int64_t image, std::int64_t m) const {
    return boxes + (image * s.boxes + m) * kYoloBoxFloats;
  }
};

constexpr std::int64_t kCornerFloats = sizeof(YoloCorners) / sizeof(float);

std::size_t yolo_loss_workspace_floats(const YoloShape& s) {
  return static_cast<std::size_t>(s.batch * (yolo_positions(s) + (2 + kCornerFloats) * s.boxes));
}

Yolo yolo_of(const YoloShape& s, const float* const outputs[3], const float* boxes,
             float* const gradients[3], float* ws) {
  Yolo y{};
  y.s = s;
  for (std::int64_t i = 0; i < kYoloScales; ++i) {
    y.outputs[i] = outputs[i];
    y.gradients[i] = gradients[i];
  }
  y.boxes = boxes;
  y.mean_scale = recip(s.batch);
  y.objectness = ws;
  y.box_loss = ws + s.batch * yolo_positions(s);
  y.corners = reinterpret_cast<YoloCorners*>(y.box_loss + s.batch * s.boxes);
  y.claimed = reinterpret_cast<std::int32_t*>(y.corners + s.batch * s.boxes);
  return y;
}

// Computes the claimed positions and the corners of all boxes, with a thread for each.
struct YoloBoxes {
  static constexpr unsigned kThreads = 64;
  using Shared = NoShared;
  Yolo y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= y.s.batch * y.s.boxes) return;
    const float* const box = y.box(0, i);
    // The comparison is that of the scalar class, so both count a NaN as a box.
    const bool exists = !(box[0] < 0.0f);
    y.claimed[i] = exists ? static_cast<std::int32_t>(yolo_target(y.s, box).position) : -1;
    y.corners[i] = yolo_corners(box);
  }
};

// Computes the positions of one scale as if no box were learnt there, with a thread for each. The
// gradients of the other channels are already +0.
struct YoloBackground {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  YoloShape s;
  std::int64_t scale, first;  // `first` is the index of the scale's first position in an image
  const float* output;
  float* gradient;
  Yolo y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block), positions = yolo_positions(s, scale);
    if (i >= s.batch * positions) return;
    const std::int64_t image = i / positions, index = i % positions;
    const std::int64_t at = i * yolo_channels(s);
    const YoloCorners mine = yolo_prediction(s, scale, index, output + at);
    bool ignored = false;
    for (std::int64_t m = image * s.boxes; m < (image + 1) * s.boxes; ++m) {
      ignored = ignored || (y.claimed[m] >= 0 && yolo_overlaps(mine, y.corners[m]));
    }
    const float logit = output[at + kYoloObjectness];
    const float counted = yolo_counted(mine, ignored);
    y.objectness[image * yolo_positions(s) + first + index] =
        keep_positive(canonical_bce(logit, 0.0f), counted);
    gradient[at + kYoloObjectness] =
        keep_positive(canonical_sigmoid(logit) * y.mean_scale, counted);
  }
};

// The boxes that learn: a run of 32 threads for each box; the threads share its classes.
struct YoloLearn {
  static constexpr unsigned kThreads = 128;
  using Shared = OnlyRuns;
  Yolo y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const YoloShape& s = y.s;
    const std::int64_t i = thread_in_grid(*this, block) / 32, image = i / s.boxes, m = i % s.boxes;
    if (i >= s.batch * s.boxes) return;
    const bool leads = block.thread() % 32 == 0;
    if (!yolo_learns(s.boxes, y.claimed + image * s.boxes, m)) {
      // A box that does not learn writes its loss too, because the sum of an image reads all of
      // them.
      if (leads) y.box_loss[i] = 0.0f;
      return;
    }
    const YoloTarget t = yolo_target(s, y.box(image, m));
    const std::int64_t at = (image * yolo_positions(s, t.scale) + t.index) * yolo_channels(s);
    const float* const output = y.outputs[t.scale] + at;
    float* const gradient = y.gradients[t.scale] + at;
    const float classes = run_sum64(block, s.classes, [&](std::int64_t k, float lane) {
      const float target = k == t.label ? 1.0f : 0.0f, logit = output[kYoloClasses + k];
      gradient[kYoloClasses + k] = (canonical_sigmoid(logit) - target) * y.mean_scale;
      return lane + canonical_bce(logit, target);
    });
    if (!leads) return;
    const float place = yolo_place(t, output, y.mean_scale, gradient);
    const float logit = output[kYoloObjectness];
    y.objectness[image * yolo_positions(s) + t.position] = canonical_bce(logit, 1.0f);
    gradient[kYoloObjectness] = (canonical_sigmoid(logit) - 1.0f) * y.mean_scale;
    y.box_loss[i] = place + classes;
  }
};

// Computes the loss of an image, with a block for each.
struct YoloImages {
  static constexpr unsigned kThreads = 256;
  using Shared = BlockSum;
  std::int64_t positions, boxes;
  const float *objectness, *box_loss;
  float* image_loss;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const float* const x = objectness + block.x() * positions;
    const float* const b = box_loss + block.x() * boxes;
    const float sum = block_sum64<kThreads>(
        block, shared, positions, [&](std::int64_t i, float lane) { return lane + x[i]; });
    if (block.thread() >= 32) return;
    const float learnt =
        run_sum64(block, boxes, [&](std::int64_t m, float lane) { return lane + b[m]; });
    if (block.thread() == 0) image_loss[block.x()] = sum + learnt;
  }
};

void yolo_loss(Stream stream, const YoloShape& s, const float* const outputs[3], const float* boxes,
               float* const gradients[3], float* image_loss, float* mean_loss, float* ws) {
  const Yolo y = yolo_of(s, outputs, boxes, gradients, ws);
  launch(stream, {.x = blocks_for<YoloBoxes>(s.batch * s.boxes)}, YoloBoxes{y});
  for (std::int64_t scale = 0, first = 0; scale < kYoloScales; ++scale) {
    const std::int64_t count = s.batch * yolo_positions(s, scale);
    fill_zero(stream, count * yolo_channels(s), gradients[scale]);
    launch(stream, {.x = blocks_for<YoloBackground>(count)},
           YoloBackground{s, scale, first, outputs[scale], gradients[scale], y});
    first += yolo_positions(s, scale);
  }
  // This launch overwrites the objectness of the claimed positions, so it follows the background of
  // all scales.
  launch(stream, {.x = blocks_for<YoloLearn>(32 * s.batch * s.boxes)}, YoloLearn{y});
  launch(stream, {.x = s.batch},
         YoloImages{yolo_positions(s), s.boxes, y.objectness, y.box_loss, image_loss});
  // The objectness losses have been summed, so their memory is used as workspace.
  array_sum<AddElement>(stream, s.batch, image_loss, y.mean_scale, mean_loss, y.objectness);
}

}  // namespace

void add_yolo(DeviceKernels& kernels) {
  kernels.yolo_loss_workspace_floats = yolo_loss_workspace_floats;
  kernels.yolo_loss = yolo_loss;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
