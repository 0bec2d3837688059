// Two blocks of conv 3x3, batch norm, ReLU and max pool 2x2 (the first with `width` channels, the
// second with twice as many), then flatten, Linear(4 * width), ReLU, Linear(classes).
#include "gpu/models/families.h"

namespace es::gpu {

Result<Graph> build_small_cnn(const ModelRequest& in) {
  const std::int64_t width = in.width(16, 4);
  GraphBuilder& b = in.builder;
  TensorId x = b.input("image");
  for (int block = 1; block <= 2; ++block) {
    const std::string number = std::to_string(block);
    x = b.conv2d("conv" + number, x, {.out = block * width, .kernel = 3, .pad = 1});
    x = b.batch_norm("bn" + number, x, {.activation = Activation::kRelu});
    x = b.max_pool("pool" + number, x, {.kernel = 2, .stride = 2});
  }
  x = b.flatten("flatten", x);
  x = b.relu("relu", b.linear("fc1", x, {.out = 4 * width}));
  return finish_classifier(b, b.linear("fc2", x, {.out = in.spec.classes}));
}

}  // namespace es::gpu
