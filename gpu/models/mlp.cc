#include "gpu/graph/builder.h"
#include "gpu/models/models.h"

namespace es::gpu {

Result<Graph> build_mlp(TensorShape input, std::int64_t width, std::int64_t classes) {
  GraphBuilder b("mlp", input);
  TensorId x = b.flatten("net.0", b.input());
  x = b.relu("net.2", b.linear("net.1", x, {.out = width}));
  x = b.relu("net.4", b.linear("net.3", x, {.out = width}));
  return b.finish(b.linear("net.5", x, {.out = classes}));
}

}  // namespace es::gpu
