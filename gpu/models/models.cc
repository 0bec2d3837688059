#include "gpu/models/models.h"

namespace es::gpu {

Result<Graph> build_model(const ModelSpec& spec, TensorShape input) {
  const auto width = [&](std::int64_t published) {
    return spec.width == 0 ? published : std::int64_t{spec.width};
  };
  if (spec.name == "mlp") return build_mlp(input, width(128), spec.classes);
  if (spec.name == "small_cnn") return build_small_cnn(input, width(16), spec.classes);
  if (spec.name == "resnet18") return build_resnet18(input, width(64), spec.classes);
  return usage_error("model.name = \"" + spec.name + "\": allowed is small_cnn, resnet18, mlp");
}

}  // namespace es::gpu
