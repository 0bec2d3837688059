// Flatten - Linear(width) - ReLU - Linear(width) - ReLU - Linear(classes).
#include "gpu/models/families.h"

namespace es::gpu {

Result<Graph> build_mlp(const ModelRequest& in) {
  const std::int64_t width = in.width(128, 16);
  GraphBuilder& b = in.builder;
  TensorId x = b.flatten("net.0", b.input("image"));
  x = b.relu("net.2", b.linear("net.1", x, {.out = width}));
  x = b.relu("net.4", b.linear("net.3", x, {.out = width}));
  return finish_classifier(b, b.linear("net.5", x, {.out = in.spec.classes}));
}

}  // namespace es::gpu
