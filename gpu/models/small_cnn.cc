#include "gpu/graph/builder.h"
#include "gpu/models/models.h"

namespace es::gpu {

Result<Graph> build_small_cnn(TensorShape input, std::int64_t width, std::int64_t classes) {
  GraphBuilder b("small_cnn", input);
  TensorId x = b.input();
  x = b.conv2d("conv1", x, {.out = width, .kernel = 3, .pad = 1});
  x = b.batch_norm("bn1", x, {.relu = true});
  x = b.max_pool("pool1", x, {.kernel = 2, .stride = 2});
  x = b.conv2d("conv2", x, {.out = 2 * width, .kernel = 3, .pad = 1});
  x = b.batch_norm("bn2", x, {.relu = true});
  x = b.max_pool("pool2", x, {.kernel = 2, .stride = 2});
  x = b.flatten("flatten", x);
  x = b.relu("relu", b.linear("fc1", x, {.out = 4 * width}));
  return b.finish(b.linear("fc2", x, {.out = classes}));
}

}  // namespace es::gpu
