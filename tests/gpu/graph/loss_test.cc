// The YOLO loss inside a graph; its formula is tested with the kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/builder") {
  using namespace es::gpu;
  using es::FieldType;
  using es::test::StepRig;

  // Three scales of a 16x16 image, two classes, boxes of two per image.
  Graph detector() {
    GraphBuilder b("detector", 2,
                   {{{"image", FieldType::kF32, 16, 16, 3}, {"boxes", FieldType::kF32, 2, 1, 5}}});
    YoloShape shape{.classes = 2};
    for (int s = 0; s < 3; ++s)
      for (int a = 0; a < 3; ++a) {
        shape.anchor_w[s][a] = static_cast<float>((3 - s) * (2 + a));
        shape.anchor_h[s][a] = static_cast<float>((3 - s) * (4 - a));
      }
    std::vector<TensorId> outputs;
    for (const std::int64_t side : {8, 4, 2}) {
      const std::string name = "scale" + std::to_string(side);
      outputs.push_back(b.conv2d(name, b.input("image"),
                                 {.out = 3 * 7, .kernel = side, .stride = side, .bias = true}));
    }
    b.yolo("loss", outputs, b.input("boxes"), shape, 16, 16);
    return *b.finish(outputs);
  }

  TEST_CASE("the YOLO loss trains all three scales") {
    const Graph graph = detector();
    StepRig rig(compile(graph), es::test::seed("yolo"));
    const std::vector<float> boxes = {0, 0.4F, 0.6F, 0.5F, 0.5F, 1,  0.8F, 0.2F, 0.2F, 0.3F,
                                      1, 0.1F, 0.1F, 0.1F, 0.2F, -1, 0,    0,    0,    0};
    std::copy(boxes.begin(), boxes.end(), rig.words.end() - 20);
    const float before = rig.run();
    CHECK(before > 0.0F);
    const AlignedBuffer gradient = rig.grads;
    for (const ParamInfo& p : graph.table.params()) {
      // Compared with the fp32 loss itself, along the gradient, where the loss is steep.
      double square = 0.0;
      for (std::int64_t i = 0; i < p.count; ++i)
        square += double(gradient.data()[p.offset + i]) * gradient.data()[p.offset + i];
      const double length = std::sqrt(square);
      INFO(p.name);
      REQUIRE(length > 0.0);
      const double step = 1e-3;
      const auto loss_at = [&](double scale) {
        const AlignedBuffer params = rig.params;
        for (std::int64_t i = 0; i < p.count; ++i)
          rig.params.data()[p.offset + i] +=
              static_cast<float>(scale * gradient.data()[p.offset + i] / length);
        const double loss = rig.run();
        rig.params = params;
        return loss;
      };
      CHECK((loss_at(step) - loss_at(-step)) / (2 * step) == doctest::Approx(length).epsilon(0.02));
    }
  }

  TEST_CASE("a detector returns one loss for each image") {
    const Graph graph = detector();
    CHECK(graph.rows_per_sample == 1);
    CHECK(graph.shape(graph.row_loss).count() == 2);
    CHECK(graph.outputs.size() == 3);
  }
}
