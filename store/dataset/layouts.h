#pragma once
// The fields of a sample of each task, in the order of proto/base/sample_layout.h. Sources write
// fields by these indices.
#include <cstdint>

#include "proto/base/sample_layout.h"

namespace es::store {

struct ImageShape {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  std::size_t pixel_bytes() const { return std::size_t{height} * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

namespace image_field {
inline constexpr std::size_t kImage = 0, kLabel = 1;
}
namespace rating_field {
inline constexpr std::size_t kUser = 0, kItem = 1, kLabel = 2;
}
namespace question_field {
inline constexpr std::size_t kIds = 0, kTypes = 1, kLength = 2, kSpan = 3;
}
namespace token_field {
inline constexpr std::size_t kIds = 0, kLabels = 1;
// The fields of the documents in a window (tokens_source.cc).
inline constexpr const char* kPositions = "position_ids";
inline constexpr const char* kSegments = "segment_ids";
// A label that the loss ignores.
inline constexpr std::int32_t kIgnoredLabel = -100;
}  // namespace token_field
namespace box_field {
inline constexpr std::size_t kImage = 0, kBoxes = 1;
}

inline SampleField image_values(const ImageShape& shape) {
  return {
      .name = "image", .height = shape.height, .width = shape.width, .channels = shape.channels};
}

inline SampleLayout image_layout(const ImageShape& shape, std::uint32_t classes) {
  return {{image_values(shape),
           {.name = "label", .type = FieldType::kI32, .high = std::int32_t(classes) - 1}}};
}

inline SampleLayout rating_layout(std::uint32_t users, std::uint32_t items) {
  return {{{.name = "user", .type = FieldType::kI32, .high = std::int32_t(users) - 1},
           {.name = "item", .type = FieldType::kI32, .high = std::int32_t(items) - 1},
           {.name = "label"}}};
}

inline SampleLayout question_layout(std::uint32_t tokens, std::uint32_t vocabulary) {
  constexpr FieldType kI32 = FieldType::kI32;
  const std::int32_t last = std::int32_t(tokens) - 1;
  return {{{.name = "ids", .type = kI32, .height = tokens, .high = std::int32_t(vocabulary) - 1},
           {.name = "types", .type = kI32, .height = tokens, .high = 1},
           {.name = "length", .type = kI32, .low = 1, .high = std::int32_t(tokens)},
           {.name = "span", .type = kI32, .channels = 2, .high = last}}};
}

inline SampleLayout token_layout(std::uint32_t length, std::uint32_t vocabulary) {
  const auto tokens = [&](const char* name) {
    return SampleField{.name = name,
                       .type = FieldType::kI32,
                       .height = length,
                       .high = std::int32_t(vocabulary) - 1};
  };
  return {{tokens("ids"), tokens("labels")}};
}

// The same for windows of documents.
inline SampleLayout document_layout(std::uint32_t length, std::uint32_t vocabulary) {
  SampleLayout layout = token_layout(length, vocabulary);
  layout.fields[token_field::kLabels].low = token_field::kIgnoredLabel;
  for (const char* name : {token_field::kPositions, token_field::kSegments})
    layout.fields.push_back({.name = name,
                             .type = FieldType::kI32,
                             .height = length,
                             .high = std::int32_t(length) - 1});
  return layout;
}

inline SampleLayout box_layout(const ImageShape& shape, std::uint32_t boxes) {
  return {{image_values(shape), {.name = "boxes", .height = boxes, .channels = 5}}};
}

}  // namespace es::store
