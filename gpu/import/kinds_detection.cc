// The loss of detectors.
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"

namespace es::gpu {
namespace {

constexpr int kScales = 3, kAnchors = 3;  // anchors of each scale

Outputs yolo_loss_outputs(const NodeView& node) {
  const std::int64_t channels = kAnchors * (5 + node.integer("classes"));
  const TensorShape& boxes = node.shape(kScales);
  if (boxes.rank() != 3 || boxes[2] != 5)
    return usage_error("boxes " + shape_text(boxes) + " must be [n,m,5]");
  for (std::size_t s = 0; s < kScales; ++s) {
    const TensorShape& x = node.shape(s);
    if (x.rank() != 4 || x[0] != boxes[0] || x[1] != channels)
      return usage_error("output " + shape_text(x) + " must be [" + std::to_string(boxes[0]) + "," +
                         std::to_string(channels) + ",h,w]");
  }
  const std::size_t anchors = node.numbers("anchors").size(), sides = node.integers("image").size();
  if (anchors != 2 * kScales * kAnchors || sides != 2)
    return usage_error("anchors and image have " + std::to_string(anchors) + " and " +
                       std::to_string(sides) + " elements: allowed are 18 and 2");
  return one_output(ValueType::kF32, {});
}

// No gradient flows to the boxes: the loss gives gradients of the three outputs only. Without the
// stop_gradient, a value that depends on parameters would appear to receive one.
void lower_yolo(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  std::vector<TensorId> outputs;
  for (std::size_t s = 0; s < kScales; ++s) outputs.push_back(l.in(node, s, channels_last(4)));
  TensorId boxes = l.logical(node, kScales);
  if (b.needs_grad(boxes)) boxes = b.stop_gradient(node.label(), boxes);
  YoloShape shape{.classes = node.integer("classes")};
  const std::vector<double> anchors = node.numbers("anchors");
  for (std::size_t i = 0; i < kScales * kAnchors; ++i) {
    shape.anchor_w[i / kAnchors][i % kAnchors] = static_cast<float>(anchors[2 * i]);
    shape.anchor_h[i / kAnchors][i % kAnchors] = static_cast<float>(anchors[2 * i + 1]);
  }
  const std::vector<std::int64_t> image = node.integers("image");
  b.yolo(node.label(), outputs, boxes, shape, image[0], image[1]);
}

}  // namespace

std::vector<Kind> detection_kinds() {
  return {
      {.name = "yolo",
       .result = "the loss of YOLOv3, the mean over the samples",
       .slots = {{.name = "coarse", .types = "f", .shape = "[n,3*(5+classes),h,w]"},
                 {.name = "middle", .types = "f", .shape = "[n,3*(5+classes),h,w]"},
                 {.name = "fine", .types = "f", .shape = "[n,3*(5+classes),h,w]"},
                 {.name = "boxes", .types = "f", .shape = "[n,m,5]"}},
       .only_loss = true,
       .attributes = {integer("classes", 1, 100'000), integers("image", 1, 1 << 20),
                      numbers("anchors", 1e-3, 1e6)},
       .outputs = yolo_loss_outputs,
       .lower = lower_yolo},
  };
}

}  // namespace es::gpu
