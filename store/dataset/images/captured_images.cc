#include "store/dataset/images/captured_images.h"

#include "store/dataset/field_error.h"
#include "store/dataset/layouts.h"

namespace es::store {
namespace {

std::string chw_text(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return "[" + std::to_string(channels) + "," + std::to_string(height) + "," +
         std::to_string(width) + "]";
}

class CapturedImages final : public SampleSource {
 public:
  CapturedImages(std::shared_ptr<const SampleSource> images, bool has_labels)
      : images_(std::move(images)), has_labels_(has_labels) {}

  const SampleLayout& layout() const override { return images_->layout(); }
  std::uint64_t train_count() const override { return images_->train_count(); }
  std::uint64_t eval_count() const override { return images_->eval_count(); }
  std::uint64_t eval_group() const override { return images_->eval_group(); }
  bool has_labels() const override { return has_labels_; }
  std::int32_t true_label(std::uint64_t index) const override { return images_->true_label(index); }
  Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                    std::span<float> words) const override {
    return images_->fill_train(epoch, samples, words);
  }
  Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                   std::span<float> words) const override {
    return images_->fill_eval(begin, count, batch_size, words);
  }

 private:
  std::shared_ptr<const SampleSource> images_;
  bool has_labels_;
};

bool are_image_and_label(const std::vector<CapturedInput>& inputs) {
  if (inputs.size() != 2) return false;
  const CapturedInput& image = inputs[image_field::kImage];
  const CapturedInput& label = inputs[image_field::kLabel];
  return image.field.name == "image" && image.type == ValueType::kF32 && image.shape.size() == 3 &&
         label.field.name == "label" && label.type == ValueType::kI32 && label.shape.empty() &&
         label.field.low == 0 && label.field.high > 0;
}

}  // namespace

Result<std::uint32_t> captured_classes(const CapturedInputs& inputs, const std::string& kind) {
  if (are_image_and_label(inputs.inputs))
    return static_cast<std::uint32_t>(inputs.inputs[image_field::kLabel].field.high) + 1;
  return bad_field("job", "data.kind", '"' + kind + '"',
                   "\"arrays\" for a model whose inputs are not \"image\" f32 [c,h,w] and "
                   "\"label\" i32 from 0");
}

Result<std::shared_ptr<const SampleSource>> captured_images(
    std::shared_ptr<const SampleSource> images, const CapturedInputs& inputs,
    const std::string& kind) {
  const SampleField& found = images->layout().fields[image_field::kImage];
  const std::vector<std::int64_t>& wanted = inputs.inputs[image_field::kImage].shape;
  if (wanted != std::vector<std::int64_t>{found.channels, found.height, found.width})
    return bad_field(
        "data.kind = \"" + kind + "\"", "shape of the images",
        chw_text(found.channels, found.height, found.width),
        chw_text(wanted[0], wanted[1], wanted[2]) + ", as input \"image\" of the model");
  return std::shared_ptr<const SampleSource>(
      std::make_shared<CapturedImages>(std::move(images), inputs.predicts_label));
}

}  // namespace es::store
