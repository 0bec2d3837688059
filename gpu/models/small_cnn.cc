// Two blocks of conv 3x3, batch norm, ReLU and max pool 2x2 (the first with `width` channels, the
// second with twice as many), then flatten, Linear(4 * width), ReLU, Linear(classes).
#include "gpu/models/families.h"

namespace es::gpu {

Result<ModelProgram> small_cnn_program(const ModelRequest& in) {
  const std::int64_t width = in.width(16, 4);
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = w.input("image");
  for (int block = 1; block <= 2; ++block) {
    const std::string number = std::to_string(block);
    x = w.conv("conv" + number, x, {.out = block * width, .kernel = 3, .pad = 1});
    x = w.batch_norm("bn" + number, x, Activation::kRelu);
    x = w.max_pool("pool" + number, x, 2, 2);
  }
  x = w.relu("relu", w.image_linear("fc1", x, {.out = 4 * width}));
  x = w.linear("fc2", x, {.out = in.spec.classes});
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
