#include "store/dataset/image_dataset.h"

#include "store/dataset/idx_reader.h"
#include "store/dataset/synthetic_images.h"

namespace es::store {

Result<ImageDataset> open_dataset(const DataSpec& spec, std::uint32_t classes) {
  if (spec.kind == "idx") return read_idx_dataset(spec.path, classes);
  if (spec.kind == "synthetic")
    return make_synthetic_images({.shape = {spec.height, spec.width, spec.channels},
                                  .classes = classes,
                                  .train_count = spec.samples,
                                  .eval_count = spec.eval_samples});
  return usage_error("data.kind = \"" + spec.kind + "\": allowed is idx, synthetic");
}

}  // namespace es::store
