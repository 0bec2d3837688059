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

ValueId conv_unit(ModelWriter& w, const std::string& name, ValueId x, std::int64_t out,
                  std::int64_t kernel, std::int64_t stride = 1) {
  x = w.conv(name + ".conv", x,
             {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2});
  return w.batch_norm(name + ".bn", x, Activation::kLeakyRelu);
}

ValueId bottleneck(ModelWriter& w, const std::string& name, ValueId x, std::int64_t out,
                   Shortcut shortcut) {
  const ValueId half = conv_unit(w, name + ".cv1", x, out / 2, 1);
  const ValueId y = conv_unit(w, name + ".cv2", half, out, 3);
  return shortcut == Shortcut::kYes ? w.add(name + ".add", x, y) : y;
}

// Adds `count` bottlenecks with the number of channels of x. They are named NAME.0, NAME.1, ... if
// there are several.
ValueId bottlenecks(ModelWriter& w, const std::string& name, ValueId x, int count,
                    Shortcut shortcut) {
  const std::int64_t out = w.extent(x, 1);
  if (count == 1) return bottleneck(w, name, x, out, shortcut);
  for (int i = 0; i < count; ++i)
    x = bottleneck(w, name + "." + std::to_string(i), x, out, shortcut);
  return x;
}

std::string module(int index) {
  return "model." + std::to_string(index);
}

struct Trunk {
  ValueId stride8, stride16, stride32;
};

Trunk darknet53(ModelWriter& w, ValueId x, const Config& config) {
  x = conv_unit(w, module(0), x, config.width, 3);
  std::array<ValueId, 5> stages{};
  for (int i = 0; i < 5; ++i) {
    x = conv_unit(w, module(2 * i + 1), x, config.width << (i + 1), 3, 2);
    x = bottlenecks(w, module(2 * i + 2), x, config.residual[i], Shortcut::kYes);
    stages[i] = x;
  }
  return {stages[2], stages[3], stages[4]};
}

// Adds a 1x1 convolution, an upsampling and the concatenation with the trunk: the modules first to
// first + 2.
ValueId join_finer(ModelWriter& w, int first, ValueId coarse, ValueId trunk, std::int64_t out) {
  ValueId x = conv_unit(w, module(first), coarse, out, 1);
  const std::int64_t h = 2 * w.extent(x, 2), width = 2 * w.extent(x, 3);
  x = w.node("resize", module(first + 1), {x}, per_sample({out, h, width}),
             {{"size", Extents{h, width}}, {"mode", "nearest"}});
  return w.concat(module(first + 2), {x, trunk}, 1);
}

// Returns the inputs of the last convolutions of the three heads, coarse to fine.
std::array<ValueId, 3> scales(ModelWriter& w, const Trunk& trunk, std::int64_t width) {
  ValueId x = bottlenecks(w, module(11), trunk.stride32, 1, Shortcut::kNo);
  x = conv_unit(w, module(12), x, 16 * width, 1);
  x = conv_unit(w, module(13), x, 32 * width, 3);
  x = conv_unit(w, module(14), x, 16 * width, 1);
  const ValueId coarse = conv_unit(w, module(15), x, 32 * width, 3);

  x = join_finer(w, 16, x, trunk.stride16, 8 * width);
  x = bottleneck(w, module(19), x, 16 * width, Shortcut::kNo);
  x = bottleneck(w, module(20), x, 16 * width, Shortcut::kNo);
  x = conv_unit(w, module(21), x, 8 * width, 1);
  const ValueId middle = conv_unit(w, module(22), x, 16 * width, 3);

  x = join_finer(w, 23, x, trunk.stride8, 4 * width);
  x = bottleneck(w, module(26), x, 8 * width, Shortcut::kNo);
  return {coarse, middle, bottlenecks(w, module(27), x, 2, Shortcut::kNo)};
}

// Widths and heights of the anchors in pixels, coarse to fine. They are given in pixels of an image
// of kYoloAnchorSide and are scaled to the image of the job.
std::vector<double> scaled_anchors(std::int64_t h, std::int64_t w) {
  std::vector<double> anchors;
  const auto scaled = [](float anchor, std::int64_t side) {
    return double{anchor * static_cast<float>(side) / kYoloAnchorSide};
  };
  for (int s = 0; s < kYoloScaleCount; ++s)
    for (int a = 0; a < kYoloAnchorsPerScale; ++a) {
      anchors.push_back(scaled(kYoloAnchorWidth[s][a], w));
      anchors.push_back(scaled(kYoloAnchorHeight[s][a], h));
    }
  return anchors;
}

// The anchors of the detector, fine to coarse, in cells of the grid of each scale.
std::vector<float> cell_anchors() {
  std::vector<float> anchors;
  for (int s = kYoloScaleCount - 1; s >= 0; --s) {
    // The scales 0, 1 and 2 have the strides 32, 16 and 8.
    const double stride = 32 >> s;
    for (int a = 0; a < kYoloAnchorsPerScale; ++a) {
      anchors.push_back(static_cast<float>(kYoloAnchorWidth[s][a] / stride));
      anchors.push_back(static_cast<float>(kYoloAnchorHeight[s][a] / stride));
    }
  }
  return anchors;
}

ValueId yolo_loss(ModelWriter& w, const std::vector<ValueId>& outputs, const ModelRequest& in) {
  constexpr std::int64_t kBoxNumbers = 5;
  const SampleField& image = in.field("image");
  std::vector<ValueId> inputs = outputs;
  inputs.push_back(w.reshape("", w.input("boxes"),
                             per_sample({in.field("boxes").words() / kBoxNumbers, kBoxNumbers})));
  return w.node("yolo", "loss", inputs, {},
                {{"classes", std::int64_t{in.spec.classes}},
                 {"image", Extents{image.height, image.width}},
                 {"anchors", scaled_anchors(image.height, image.width)}});
}

}  // namespace

Result<ModelProgram> yolov3_program(const ModelRequest& in) {
  const Config& config = in.tiny() ? kTiny : kPublished;
  ModelWriter w(in.spec.name, in.layout);
  const std::array<ValueId, 3> heads =
      scales(w, darknet53(w, w.input("image"), config), config.width);
  std::vector<ValueId> outputs(3);
  for (int s = 2; s >= 0; --s)  // the detector numbers its convolutions from fine to coarse
    outputs[s] =
        w.conv("model.28.m." + std::to_string(2 - s), heads[s],
               {.out = 3 * (5 + std::int64_t{in.spec.classes}), .kernel = 1, .bias = true});
  w.buffer("model.28.anchors", {kYoloScaleCount, kYoloAnchorsPerScale, 2}, cell_anchors());
  const ValueId loss = yolo_loss(w, outputs, in);
  return std::move(w).finish(loss, outputs);
}

}  // namespace es::gpu
