#pragma once
// SampleLayout describes the fields of one sample of a data set, as data sources write them and
// models read them. A plain value.
//
// A sample is a list of named fields of 32-bit words. A mini-batch of B samples is one block of
// words, field after field: field f is a dense array [B][height][width][channels] that begins at
// word B * offset(f).
//
// The tasks and their fields are as follows. T is the number of tokens and M the number of boxes.
//   classification   image f32 [h,w,c]; label i32 [1]
//   recommendation   user i32 [1]; item i32 [1]; label f32 [1] (1: the user rated the item, else 0)
//   question answering   ids i32 [T]; types i32 [T] (0 question, 1 context); length i32 [1]
//                    (tokens in use; the rest is padding); span i32 [2] (first and last token of
//                    the answer)
//   language modelling   ids i32 [T]; labels i32 [T] (for each token the next one); with documents
//                    also position_ids i32 [T] and segment_ids i32 [T] (tokens_source.cc)
//   detection        image f32 [h,w,3]; boxes f32 [M,5] (height M, channels 5): class, centre x,
//                    centre y, width, height; the last four in (0, 1] as parts of the image; class
//                    -1 means that there is no box
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace es {

enum class FieldType { kF32, kI32 };

struct SampleField {
  std::string name;
  FieldType type = FieldType::kF32;
  std::int64_t height = 1, width = 1, channels = 1;
  // Every value of a kI32 field is in [low, high]. An embedding has high + 1 rows, and a classifier
  // has high + 1 classes.
  std::int32_t low = 0, high = 0;

  std::int64_t words() const { return height * width * channels; }
  bool operator==(const SampleField&) const = default;
};

struct SampleLayout {
  std::vector<SampleField> fields;

  // Number of words of one sample.
  std::int64_t words() const {
    std::int64_t sum = 0;
    for (const SampleField& f : fields) sum += f.words();
    return sum;
  }
  // Number of words of one sample in the fields before field `index`.
  std::int64_t offset(std::size_t index) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < index; ++i) sum += fields[i].words();
    return sum;
  }
  // Index of the field with this name, or fields.size() if there is none.
  std::size_t find(std::string_view name) const {
    std::size_t i = 0;
    while (i < fields.size() && fields[i].name != name) ++i;
    return i;
  }
  bool operator==(const SampleLayout&) const = default;
};

}  // namespace es
