// The data of the built-in models for models from model files whose inputs are the same fields.
#include "store/dataset/sources.h"

#include <algorithm>
#include <optional>

#include "proto/base/job_fields.h"
#include "store/dataset/layouts.h"
#include "store/field_error.h"

namespace es::store {
namespace {

class CapturedSamples final : public SampleSource {
 public:
  CapturedSamples(std::shared_ptr<const SampleSource> source, const CapturedInputs& inputs)
      : source_(std::move(source)), layout_(inputs.layout()), has_labels_(inputs.predicts_label) {}

  const SampleLayout& layout() const override { return layout_; }
  std::uint64_t train_count() const override { return source_->train_count(); }
  std::uint64_t eval_count() const override { return source_->eval_count(); }
  std::uint64_t eval_group() const override { return source_->eval_group(); }
  bool has_labels() const override { return has_labels_; }
  std::int32_t true_label(std::uint64_t index) const override { return source_->true_label(index); }
  Status fill_train(std::uint64_t epoch, std::span<const std::uint64_t> samples,
                    std::span<float> words) const override {
    return source_->fill_train(epoch, samples, words);
  }
  Status fill_eval(std::uint64_t begin, std::uint64_t count, std::uint64_t batch_size,
                   std::span<float> words) const override {
    return source_->fill_eval(begin, count, batch_size, words);
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  SampleLayout layout_;  // that of the source, with the names of the inputs
  bool has_labels_;
};

bool are_named(const CapturedInputs& inputs, std::initializer_list<const char*> names) {
  return std::ranges::equal(inputs.inputs, names, {},
                            [](const CapturedInput& input) { return input.field.name; });
}

// A sample holds the image [c,h,w] of a model as [h,w,c].
bool begin_with_an_image(const CapturedInputs& inputs) {
  const CapturedInput& image = inputs.inputs[image_field::kImage];
  return image.type == ValueType::kF32 && image.shape.size() == 3;
}

bool end_with_classes(const CapturedInputs& inputs) {
  const CapturedInput& label = inputs.inputs[image_field::kLabel];
  return label.type == ValueType::kI32 && label.shape.empty() && label.field.low <= 0 &&
         label.field.high > 0;
}

std::string field_text(const SampleField& field) {
  const bool is_ids = field.type == FieldType::kI32;
  return "\"" + field.name + "\" " + (is_ids ? "i32" : "f32") + " [" +
         std::to_string(field.height) + "," + std::to_string(field.width) + "," +
         std::to_string(field.channels) + "]" +
         (is_ids ? " from " + std::to_string(field.low) + " to " + std::to_string(field.high) : "");
}

// Returns a built-in model with the same fields; nothing if there is none.
std::optional<ModelSpec> model_with(const CapturedInputs& inputs) {
  // An image with its class is known by its shapes, because the inputs of a captured model have the
  // names of its arguments.
  if (inputs.inputs.size() == 2 && begin_with_an_image(inputs) && end_with_classes(inputs)) {
    const std::int32_t last = inputs.inputs[image_field::kLabel].field.high;
    return ModelSpec{.classes = static_cast<std::uint32_t>(last) + 1};
  }
  if (are_named(inputs, {"user", "item", "label"})) return ModelSpec{.name = "neumf"};
  if (are_named(inputs, {"ids", "types", "length", "span"})) return ModelSpec{.name = "bert"};
  if (are_named(inputs, {"ids", "labels"})) return ModelSpec{.name = "gpt2"};
  if (are_named(inputs, {"image", "boxes"}) && begin_with_an_image(inputs) &&
      inputs.box_classes > 0)
    return ModelSpec{.name = "yolov3", .classes = inputs.box_classes};
  return std::nullopt;
}

bool reads(const ModelSpec& model, const std::string& kind) {
  return std::ranges::any_of(task_names(), [&](const TaskNames& task) {
    return task.task == task_of(model) &&
           std::ranges::find(task.data_kinds, kind) != task.data_kinds.end();
  });
}

}  // namespace

Result<ModelSpec> model_of_task(const CapturedInputs& inputs, const std::string& kind) {
  const std::optional<ModelSpec> model = model_with(inputs);
  if (model && reads(*model, kind)) return *model;
  return bad_field("job", "data.kind", '"' + kind + '"',
                   "\"arrays\", because the inputs of the model are not the fields of these data");
}

Result<std::shared_ptr<const SampleSource>> captured_samples(
    std::shared_ptr<const SampleSource> source, const CapturedInputs& inputs,
    const std::string& kind) {
  const std::vector<SampleField> wanted = inputs.layout().fields;
  const std::vector<SampleField>& found = source->layout().fields;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // model_of_task() has compared what names have to be, so both lists have the same length.
    SampleField named = found[i];
    named.name = wanted[i].name;
    // A loss may also take a number below those of all classes, for labels that it ignores.
    named.low = std::min(named.low, wanted[i].low);
    if (named != wanted[i])
      return bad_field("data.kind = \"" + kind + "\"", "field of the samples [h,w,c]",
                       field_text(found[i]), field_text(wanted[i]) + ", as the input of the model");
  }
  return std::shared_ptr<const SampleSource>(
      std::make_shared<CapturedSamples>(std::move(source), inputs));
}

}  // namespace es::store
