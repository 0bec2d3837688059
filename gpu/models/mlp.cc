// Flatten - Linear(width) - ReLU - Linear(width) - ReLU - Linear(classes).
#include "gpu/models/families.h"

namespace es::gpu {

Result<ModelProgram> mlp_program(const ModelRequest& in) {
  const std::int64_t width = in.width(128, 16);
  ModelWriter w(in.spec.name, in.layout);
  ValueId x = w.image_linear("net.1", w.input("image"), {.out = width});
  x = w.relu("net.2", x);
  x = w.relu("net.4", w.linear("net.3", x, {.out = width}));
  x = w.linear("net.5", x, {.out = in.spec.classes});
  return finish_classifier(std::move(w), x);
}

}  // namespace es::gpu
