#include "gpu/models/sample_check.h"

#include <string>
#include <vector>

namespace es::gpu {
namespace {

// A field that a task needs. `words` is the number of words in each sample; 0: any number.
struct Expected {
  const char* name;
  FieldType type;
  std::int64_t words;
};

std::vector<Expected> expected_fields(Task task) {
  constexpr FieldType kF32 = FieldType::kF32;
  constexpr FieldType kI32 = FieldType::kI32;
  switch (task) {
    case Task::kClassification:
      return {{"image", kF32, 0}, {"label", kI32, 1}};
    case Task::kRecommendation:
      return {{"user", kI32, 1}, {"item", kI32, 1}, {"label", kF32, 1}};
    case Task::kQuestionAnswering:
      return {{"ids", kI32, 0}, {"types", kI32, 0}, {"length", kI32, 1}, {"span", kI32, 2}};
    case Task::kDetection:
      return {{"image", kF32, 0}, {"boxes", kF32, 0}};
    case Task::kLanguage:
      return {{"ids", kI32, 0}, {"labels", kI32, 0}};
    case Task::kCaptured:
      break;  // a model file says itself which fields it needs (gpu/import)
  }
  return {};
}

std::string subject(const ModelSpec& spec, const char* field) {
  return "model " + spec.name + ": field \"" + field + "\" of the samples ";
}

const SampleField& field(const SampleLayout& layout, const char* name) {
  return layout.fields[layout.find(name)];
}

Status check_field(const ModelSpec& spec, const SampleLayout& layout, const Expected& expected) {
  if (layout.find(expected.name) == layout.fields.size()) {
    std::string present;
    for (const SampleField& f : layout.fields) present += (present.empty() ? "" : ", ") + f.name;
    return usage_error(subject(spec, expected.name) + "is missing: they have " + present);
  }
  const SampleField& found = field(layout, expected.name);
  if (found.type != expected.type)
    return usage_error(subject(spec, expected.name) + "has another type: allowed is " +
                       (expected.type == FieldType::kF32 ? "fp32" : "int32"));
  if (expected.words != 0 && found.words() != expected.words)
    return usage_error(subject(spec, expected.name) + "has " + std::to_string(found.words()) +
                       " values: allowed is " + std::to_string(expected.words));
  return {};
}

Status check_classes(const ModelSpec& spec, const SampleLayout& layout) {
  // The sum uses 64 bits, because `high` may be the largest 32-bit integer.
  const std::int64_t classes = std::int64_t{field(layout, "label").high} + 1;
  if (classes == spec.classes) return {};
  return usage_error(subject(spec, "label") + "has values up to " + std::to_string(classes - 1) +
                     ", but model.classes = " + std::to_string(spec.classes) + ": allowed is " +
                     std::to_string(classes));
}

Status check_tokens(const ModelSpec& spec, const SampleLayout& layout) {
  const SampleField& ids = field(layout, "ids");
  const SampleField& types = field(layout, "types");
  if (ids.height != ids.words())
    return usage_error(subject(spec, "ids") + "has width " + std::to_string(ids.width) + " and " +
                       std::to_string(ids.channels) + " channels: allowed are tokens along height");
  // Each end of the answer is one of the tokens, so one token leaves nothing to learn.
  if (ids.height < 2)
    return usage_error(subject(spec, "ids") + "has 1 token: allowed are at least 2");
  if (types.height != ids.height || types.words() != ids.words())
    return usage_error(subject(spec, "types") + "has " + std::to_string(types.words()) +
                       " tokens: allowed is " + std::to_string(ids.height) + ", as \"ids\" has");
  if (types.high > 1)
    return usage_error(subject(spec, "types") + "has values up to " + std::to_string(types.high) +
                       ": allowed is 0 or 1");
  const std::int32_t last = field(layout, "span").high;
  // A position beyond the last token would have no logit.
  if (last >= ids.height)
    return usage_error(subject(spec, "span") + "has values up to " + std::to_string(last) +
                       ": allowed is at most " + std::to_string(ids.height - 1) +
                       ", the last token");
  return {};
}

Status check_sequences(const ModelSpec& spec, const SampleLayout& layout) {
  const SampleField& ids = field(layout, "ids");
  if (ids.height != ids.words())
    return usage_error(subject(spec, "ids") + "has width " + std::to_string(ids.width) + " and " +
                       std::to_string(ids.channels) + " channels: allowed are tokens along height");
  SampleField expected = ids;
  expected.name = "labels";
  // Labels at the beginnings of documents are ignored.
  if (layout.find("segment_ids") < layout.fields.size()) expected.low = field(layout, "labels").low;
  if (field(layout, "labels") != expected)
    return usage_error(subject(spec, "labels") +
                       "has another shape or range than \"ids\": allowed "
                       "are " +
                       std::to_string(ids.height) + " tokens from " + std::to_string(ids.low) +
                       " to " + std::to_string(ids.high));
  return {};
}

Status check_boxes(const ModelSpec& spec, const SampleLayout& layout) {
  const SampleField& boxes = field(layout, "boxes");
  if (boxes.words() == 5 * boxes.height) return {};
  return usage_error(subject(spec, "boxes") + "has " +
                     std::to_string(boxes.words() / boxes.height) +
                     " numbers per box: allowed is 5");
}

}  // namespace

Status check_samples(const ModelSpec& spec, const SampleLayout& layout) {
  const Task task = task_of(spec);
  for (const Expected& expected : expected_fields(task))
    ES_RETURN_IF_ERROR(check_field(spec, layout, expected));
  switch (task) {
    case Task::kClassification:
      return check_classes(spec, layout);
    case Task::kRecommendation:
      return {};
    case Task::kQuestionAnswering:
      return check_tokens(spec, layout);
    case Task::kDetection:
      return check_boxes(spec, layout);
    case Task::kLanguage:
      return check_sequences(spec, layout);
    case Task::kCaptured:
      return {};
  }
  return {};
}

Status check_image_sides(const ModelSpec& spec, const SampleLayout& layout, std::int64_t least,
                         std::int64_t multiple) {
  if (layout.find("image") == layout.fields.size()) return {};
  const SampleField& image = field(layout, "image");
  const auto fits = [&](std::int64_t side) { return side >= least && side % multiple == 0; };
  if (fits(image.height) && fits(image.width)) return {};
  return usage_error(subject(spec, "image") + "is " + std::to_string(image.height) + " x " +
                     std::to_string(image.width) + " pixels: allowed is at least " +
                     std::to_string(least) + " a side" +
                     (multiple > 1 ? ", in multiples of " + std::to_string(multiple) : ""));
}

}  // namespace es::gpu
