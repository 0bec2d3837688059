// YOLOv3 (Redmon & Farhadi 2018): the trunk Darknet-53 and heads with the strides 32, 16 and 8. The
// modules are numbered as in models/yolov3.yaml of ultralytics/yolov3. Its bottlenecks without a
// shortcut are the pairs of 1x1 and 3x3 convolutions between the scales.
#include <array>

#include "gpu/models/families.h"
#include "proto/base/yolo_anchors.h"

namespace es::gpu {
namespace {

struct Config {
  std::int64_t width;           // channels of the first convolution
  std::array<int, 5> residual;  // number of blocks of each of the five stages
};
constexpr Config kPublished{32, {1, 2, 8, 8, 4}};
constexpr Config kTiny{4, {1, 1, 2, 1, 1}};

enum class Shortcut { kNo, kYes };

TensorId conv_unit(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out,
                   std::int64_t kernel, std::int64_t stride = 1) {
  x = b.conv2d(name + ".conv", x,
               {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2});
  return b.batch_norm(name + ".bn", x, {.activation = Activation::kLeakyRelu});
}

TensorId bottleneck(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out,
                    Shortcut shortcut) {
  const TensorId half = conv_unit(b, name + ".cv1", x, out / 2, 1);
  const TensorId y = conv_unit(b, name + ".cv2", half, out, 3);
  return shortcut == Shortcut::kYes ? b.add(name + ".add", x, y) : y;
}

// Adds `count` bottlenecks with the number of channels of x. They are named NAME.0, NAME.1, ... if
// there are several.
TensorId bottlenecks(GraphBuilder& b, const std::string& name, TensorId x, int count,
                     Shortcut shortcut) {
  const std::int64_t out = b.shape(x).row();
  if (count == 1) return bottleneck(b, name, x, out, shortcut);
  for (int i = 0; i < count; ++i)
    x = bottleneck(b, name + "." + std::to_string(i), x, out, shortcut);
  return x;
}

std::string module(int index) {
  return "model." + std::to_string(index);
}

struct Trunk {
  TensorId stride8, stride16, stride32;
};

Trunk darknet53(GraphBuilder& b, TensorId x, const Config& config) {
  x = conv_unit(b, module(0), x, config.width, 3);
  std::array<TensorId, 5> stages{};
  for (int i = 0; i < 5; ++i) {
    x = conv_unit(b, module(2 * i + 1), x, config.width << (i + 1), 3, 2);
    x = bottlenecks(b, module(2 * i + 2), x, config.residual[i], Shortcut::kYes);
    stages[i] = x;
  }
  return {stages[2], stages[3], stages[4]};
}

// Adds a 1x1 convolution, an upsampling and the concatenation with the trunk: the modules first to
// first + 2.
TensorId join_finer(GraphBuilder& b, int first, TensorId coarse, TensorId trunk, std::int64_t out) {
  TensorId x = conv_unit(b, module(first), coarse, out, 1);
  x = b.upsample2(module(first + 1), x);
  return b.concat(module(first + 2), {x, trunk}, Axis::kC);
}

// Returns the inputs of the last convolutions of the three heads, coarse to fine.
std::array<TensorId, 3> scales(GraphBuilder& b, const Trunk& trunk, std::int64_t width) {
  TensorId x = bottlenecks(b, module(11), trunk.stride32, 1, Shortcut::kNo);
  x = conv_unit(b, module(12), x, 16 * width, 1);
  x = conv_unit(b, module(13), x, 32 * width, 3);
  x = conv_unit(b, module(14), x, 16 * width, 1);
  const TensorId coarse = conv_unit(b, module(15), x, 32 * width, 3);

  x = join_finer(b, 16, x, trunk.stride16, 8 * width);
  x = bottleneck(b, module(19), x, 16 * width, Shortcut::kNo);
  x = bottleneck(b, module(20), x, 16 * width, Shortcut::kNo);
  x = conv_unit(b, module(21), x, 8 * width, 1);
  const TensorId middle = conv_unit(b, module(22), x, 16 * width, 3);

  x = join_finer(b, 23, x, trunk.stride8, 4 * width);
  x = bottleneck(b, module(26), x, 8 * width, Shortcut::kNo);
  return {coarse, middle, bottlenecks(b, module(27), x, 2, Shortcut::kNo)};
}

YoloShape loss_shape(std::int64_t classes, const ImageShape& image) {
  static_assert(kYoloScaleCount == 3 && kYoloAnchorsPerScale == 3);
  YoloShape shape{.classes = classes};
  for (int s = 0; s < kYoloScaleCount; ++s) {
    for (int a = 0; a < kYoloAnchorsPerScale; ++a) {
      // The anchors are given in pixels of an image of kYoloAnchorSide and are scaled to the image
      // of the job.
      shape.anchor_w[s][a] = kYoloAnchorWidth[s][a] * static_cast<float>(image.w) / kYoloAnchorSide;
      shape.anchor_h[s][a] =
          kYoloAnchorHeight[s][a] * static_cast<float>(image.h) / kYoloAnchorSide;
    }
  }
  return shape;
}

// Returns the anchors of the detector, fine to coarse, in cells of the grid of each scale.
BufferInfo anchors() {
  BufferInfo info{.name = "model.28.anchors",
                  .torch_shape = {kYoloScaleCount, kYoloAnchorsPerScale, 2},
                  .dtype = "F32",
                  .values = {}};
  for (int s = kYoloScaleCount - 1; s >= 0; --s) {
    // The scales 0, 1 and 2 have the strides 32, 16 and 8.
    const double stride = 32 >> s;
    for (int a = 0; a < kYoloAnchorsPerScale; ++a) {
      info.values.push_back(kYoloAnchorWidth[s][a] / stride);
      info.values.push_back(kYoloAnchorHeight[s][a] / stride);
    }
  }
  return info;
}

}  // namespace

Result<Graph> build_yolov3(const ModelRequest& in) {
  const Config& config = in.tiny() ? kTiny : kPublished;
  const std::int64_t classes = in.spec.classes;
  GraphBuilder& b = in.builder;
  const TensorId image = b.input("image");
  const std::array<TensorId, 3> heads = scales(b, darknet53(b, image, config), config.width);
  std::vector<TensorId> outputs(3);
  for (int s = 2; s >= 0; --s)  // the detector numbers its convolutions from fine to coarse
    outputs[s] = b.conv2d("model.28.m." + std::to_string(2 - s), heads[s],
                          {.out = 3 * (5 + classes), .kernel = 1, .bias = true});
  b.state_dict_buffer(anchors());
  const ImageShape side = b.image(image);
  b.yolo("loss", outputs, b.input("boxes"), loss_shape(classes, side), side.h, side.w);
  return b.finish(outputs);
}

}  // namespace es::gpu
